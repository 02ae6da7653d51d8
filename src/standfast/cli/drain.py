"""Orders to the supervisor of a worker: which worker is meant, and waiting until the order is carried out."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

import click
import msgspec

from standfast.cli.connection import StoreOptions, examples, store_options, yes_option
from standfast.cli.exit_codes import ExitCode
from standfast.cli.inputs import confirm
from standfast.cli.lookup import find_job
from standfast.cli.output import say, say_json, wait_progress
from standfast.errors import JobStateError, StandfastError
from standfast.model.display import counted, span
from standfast.model.states import CLAIMED
from standfast.stores.backend import Backend
from standfast.stores.values import Worker
from standfast.stores.verb import run_procedure
from standfast.supervisor.orders import DRAIN, LASTS, RECYCLE, Order, forget_order, give_order, look_at_order

_LOOK_EVERY = 0.1


def find_worker(backend: Backend, worker_id: str) -> Worker:
    """Return the living worker with this id, or the only one whose id begins or ends so."""
    found = backend.run(backend.verbs.workers())
    same = [each for each in found if each.info.id == worker_id]
    matches = same or [
        each for each in found if each.info.id.startswith(worker_id) or each.info.id.endswith(worker_id)
    ]
    if not matches or not worker_id:
        raise StandfastError(f"there is no worker '{worker_id}': `standfast workers` lists the ids")
    if len(matches) > 1:
        ids = ", ".join(each.info.id for each in matches)
        raise StandfastError(
            f"'{worker_id}' may be any of {len(matches)} workers, give more of the one meant: {ids}"
        )
    [worker] = matches
    if not worker.is_live:
        age = span(worker.beat_age)
        raise StandfastError(f"worker {worker.info.id} was not heard of for {age}: nobody is there to do anything")
    return worker


def order_and_wait(
    backend: Backend,
    what: str,
    worker: str,
    timeout: float,
    details: Mapping[str, str] | None = None,
    *,
    done: Callable[[Order], bool],
) -> Order:
    """Give an order and wait until it is `done`. Raises StandfastError if it is refused, or after the timeout.

    It is taken back then.
    """
    give_up_at = time.monotonic() + timeout
    lasts = timedelta(seconds=timeout)
    order: Order = run_procedure(backend.run, give_order(backend.verbs, what, worker, details, lasts))
    taken = False
    try:
        with wait_progress() as tell:
            tell(f"waiting for the next beat for worker {worker}")
            while not done(order):
                seen = run_procedure(backend.run, look_at_order(backend.verbs, order.id))
                taken = taken or seen is None or seen.taken
                if seen is not None and seen.refused:
                    raise StandfastError(seen.refused)
                tell(
                    f"worker {worker}: {what} is under way"
                    if taken
                    else f"waiting for the next beat for worker {worker}"
                )
                if time.monotonic() >= give_up_at:
                    raise StandfastError(_too_late(what, worker, timeout, taken=taken))
                time.sleep(_LOOK_EVERY)
    finally:
        run_procedure(backend.run, forget_order(backend.verbs, order.id))
    return order


def _too_late(what: str, worker: str, timeout: float, *, taken: bool) -> str:
    if taken:
        return f"its supervisor has begun to {what} worker {worker}, and was not done within {timeout:g} s"
    return (
        f"no supervisor took the order to {what} worker {worker} within {timeout:g} s: they look at each beat,"
        " a third of their lease; give more with --timeout, or see with `standfast workers` whether it is there"
    )


# Having workers leave, in one manner or another: which ones, an order for each, waiting until they are gone.

_LOOK_AT_WORKERS_EVERY = 0.2

NOT_TAKEN = "no supervisor took the order: `standfast workers` tells whether it is still there"

Command = TypeVar("Command", bound=Callable[..., Any])


class Answer(msgspec.Struct, kw_only=True):
    """What became of one worker, as `--json` prints it. `gone`: it has left; until then it ends what it runs."""

    worker: str
    gone: bool = False
    error: str | None = None


A = TypeVar("A", bound=Answer)


@dataclass(slots=True)
class StopCase(Generic[A]):
    """One worker that is to leave, and how far it is with that."""

    worker: Worker
    order: Order
    answer: A
    taken: bool = False

    @property
    def over(self) -> bool:
        """Whether there is nothing more to wait for."""
        return self.answer.gone or self.answer.error is not None


@dataclass(frozen=True, slots=True)
class Look(Generic[A]):
    """What is seen at a look: all that are to leave, who is registered, and how many seconds it took so far."""

    cases: Sequence[StopCase[A]]
    listed: Mapping[str, Worker]
    elapsed: float


class StopKind(ABC, Generic[A]):
    """How workers leave: what is ordered, and what is said about it."""

    order: str
    waits_for: str
    """What an order that stands waits for."""

    @abstractmethod
    def answer(self, worker: str) -> A:
        """Return what is known of a worker at the beginning."""

    @abstractmethod
    def plan(self, workers: Sequence[Worker], who: str) -> str:
        """Say what will happen to these workers, which are called so."""

    def question(self, who: str) -> str | None:  # noqa: ARG002 - others ask
        """Return what is asked before all workers, which are called so, are to leave; None where nothing is."""
        return None

    @abstractmethod
    def progress(self, cases: Sequence[StopCase[A]]) -> str:
        """Say how far it is."""

    @abstractmethod
    def judge(self, case: StopCase[A], look: Look[A]) -> None:
        """Learn from the end of an order how it is with a worker that is still there, or why it stays."""

    @abstractmethod
    def told(self, answer: A) -> str:
        """Say what became of a worker."""


def stop_options(command: Command) -> Command:
    """Give a command the options about which workers are meant, and about waiting for them."""
    for option in (
        click.option(
            "--timeout",
            type=click.FloatRange(min=1),
            default=900.0,
            metavar="SECONDS",
            help="How long to wait; the order stands after that.",
        ),
        click.option("--no-wait", is_flag=True, help="Give the order, and do not wait until it is carried out."),
        click.option("--all", "everyone", is_flag=True, help="All workers that live."),
        click.argument("worker_ids", metavar="[WORKER]...", nargs=-1),
    ):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which workers are meant, or that of which job, and how long to wait for them; None for not at all.

    `yes`: nobody is asked.
    """

    worker_ids: tuple[str, ...]
    everyone: bool
    timeout: float | None
    yes: bool = False
    job_id: str | None = None

    def find(self, wanted: StoreOptions, backend: Backend) -> list[Worker]:
        """Return them."""
        if self.job_id is not None:
            job = find_job(wanted, backend, self.job_id)
            if job.worker is None or job.state not in CLAIMED:
                raise JobStateError(f"job {job.id} is {job.state}: no worker has it")
            return [find_worker(backend, job.worker)]
        if self.everyone:
            return [worker for worker in backend.run(backend.verbs.workers()) if worker.is_live]
        named = [find_worker(backend, each) for each in self.worker_ids]
        return list({worker.info.id: worker for worker in named}.values())


def stop_workers(
    wanted: StoreOptions, chosen: Chosen, manner: StopKind[A], details: Mapping[str, str] | None = None
) -> None:
    """Have workers leave, wait for it, and say what became of them; exit with 1 where one of them stays."""
    if sum(map(bool, (chosen.worker_ids, chosen.everyone, chosen.job_id))) != 1:
        raise click.UsageError("name the workers, or say --all: `standfast workers` lists the ids")
    with wanted.store() as backend:
        workers = chosen.find(wanted, backend)
        question = manner.question(_named(workers)) if chosen.everyone and workers else None
        if question is not None and not chosen.yes:
            confirm(question)
        cases = [
            StopCase(worker, _order(backend, manner.order, worker, details), manner.answer(worker.info.id))
            for worker in workers
        ]
        if not wanted.as_json:
            say(manner.plan(workers, _named(workers)))
        if chosen.timeout is not None:
            _wait(backend, manner, cases, chosen.timeout)
    if wanted.as_json:
        say_json([case.answer for case in cases])
    elif chosen.timeout is not None:
        for case in cases:
            say(
                f"Worker {case.answer.worker}: {case.answer.error}."
                if case.answer.error
                else manner.told(case.answer)
            )
    if any(case.answer.error for case in cases):
        raise click.exceptions.Exit(ExitCode.FAILED)


def _order(backend: Backend, what: str, worker: Worker, details: Mapping[str, str] | None) -> Order:
    order: Order = run_procedure(backend.run, give_order(backend.verbs, what, worker.info.id, details))
    return order


def _named(workers: Sequence[Worker]) -> str:
    machines = {worker.info.supervisor for worker in workers}
    where = "" if len(machines) <= 1 else f" of {counted(len(machines), 'supervisor')}"
    return f"{counted(len(workers), 'worker')}{where}"


def _wait(backend: Backend, manner: StopKind[A], cases: Sequence[StopCase[A]], timeout: float) -> None:
    begun = time.monotonic()
    too_late = f"this was not done within {timeout:g} s; the order stands, and waits for {manner.waits_for}"
    with wait_progress() as tell:
        while waiting := [case for case in cases if not case.over]:
            time.sleep(_LOOK_AT_WORKERS_EVERY)
            listed = {worker.info.id: worker for worker in backend.run(backend.verbs.workers())}
            look = Look(cases, listed, time.monotonic() - begun)
            for case in waiting:
                _learn(backend, manner, case, look)
                if look.elapsed >= timeout and not case.over:
                    case.answer.error = too_late
            tell(manner.progress(cases))


def _learn(backend: Backend, manner: StopKind[A], case: StopCase[A], look: Look[A]) -> None:
    """Learn how far it is with a worker: an order is gone when it was carried out, or in vain."""
    order = run_procedure(backend.run, look_at_order(backend.verbs, case.order.id))
    case.answer.gone = case.answer.worker not in look.listed
    if order is None:
        case.taken = case.taken or look.elapsed < LASTS.total_seconds()
        manner.judge(case, look)
    elif order.refused:
        case.answer.error = f"it stays: {order.refused}"
        run_procedure(backend.run, forget_order(backend.verbs, order.id))
    else:
        case.taken = case.taken or order.taken


# `standfast workers drain`: have workers leave for good, once what they run has ended.


@click.command(
    epilog=examples(
        "standfast workers drain 1f8a90c2",
        "standfast workers drain --all",
        "standfast workers drain --all --yes --no-wait",
        "standfast workers drain --all --yes --timeout 60 --json",
    )
)
@stop_options
@yes_option
@store_options
def drain(
    wanted: StoreOptions, worker_ids: tuple[str, ...], *, everyone: bool, no_wait: bool, timeout: float, yes: bool
) -> None:
    """Have workers take nothing more, end what they run, and leave. None takes their place.

    Running jobs may finish (setting drain_limit); after that it is as at a graceful stop. The places of the workers
    stay empty until their supervisor is restarted, reloaded (SIGHUP) or told to recycle. A supervisor all of whose
    places are drained ends, with exit code 0. All workers are drained after asking only. WORKER is an id, or the
    beginning or end of one.
    """
    stop_workers(wanted, Chosen(worker_ids, everyone, None if no_wait else timeout, yes), _Draining())


class _Draining(StopKind[Answer]):
    order = DRAIN
    waits_for = "running jobs"

    def answer(self, worker: str) -> Answer:
        return Answer(worker=worker)

    def plan(self, workers: Sequence[Worker], who: str) -> str:
        if not workers:
            return "No worker lives, and so none is drained."
        return f"{who} will be drained, at once: each ends what it runs and leaves, and none takes its place."

    def question(self, who: str) -> str:
        return f"Drain {who} for good?"

    def progress(self, cases: Sequence[StopCase[Answer]]) -> str:
        return f"{sum(case.answer.gone for case in cases)} of {len(cases)} gone"

    def judge(self, case: StopCase[Answer], look: Look[Answer]) -> None:  # noqa: ARG002 - the order tells enough
        if not (case.taken or case.answer.gone):
            case.answer.error = NOT_TAKEN

    def told(self, answer: Answer) -> str:
        return f"Worker {answer.worker} is gone, and its place stays empty."


# `standfast workers recycle`: have workers replaced by fresh ones, without a gap.

_FORGOTTEN_AFTER = 1.9 * LASTS.total_seconds()
"""Seconds after which that an order is gone no longer means that it was carried out."""


class Replaced(Answer, kw_only=True):
    """What became of one worker, and who works in its place."""

    replaced_by: str | None = None


@click.command(
    epilog=examples(
        "standfast workers recycle 1f8a90c2",
        "standfast workers recycle --all",
        "standfast workers recycle --job 3c2d1e0f",
        "standfast workers recycle --all --no-wait",
        "standfast workers recycle --all --force --json",
    )
)
@stop_options
@click.option("--job", "job_id", metavar="ID", help="The worker that has this job.")
@click.option("--force", is_flag=True, help="Also inside a window in which the app forbids it.")
@store_options
def recycle(
    wanted: StoreOptions,
    worker_ids: tuple[str, ...],
    *,
    job_id: str | None,
    everyone: bool,
    force: bool,
    no_wait: bool,
    timeout: float,
) -> None:
    """Replace workers by fresh ones, which import the app anew.

    Each leaves only when the one in its place works, and its running jobs may finish first (setting drain_limit).
    A job that was cancelled and goes on is not waited for: to be rid of one that ignores its cancellation, give it
    with --job.
    One at a time on each machine, and one machine at a time. Places that were drained are filled again. WORKER is
    an id, or the beginning or end of one.
    """
    chosen = Chosen(worker_ids, everyone, None if no_wait else timeout, job_id=job_id)
    stop_workers(wanted, chosen, _Recycling(), {"force": "yes"} if force else None)


class _Recycling(StopKind[Replaced]):
    order = RECYCLE
    waits_for = "running jobs, or for the end of a window that forbids it, for which --force does not wait"

    def answer(self, worker: str) -> Replaced:
        return Replaced(worker=worker)

    def plan(self, workers: Sequence[Worker], who: str) -> str:
        if not workers:
            return "No worker lives, and so none is replaced."
        return (
            f"{who} will be replaced, one at a time: each leaves when another works in its place, and ends what"
            " it runs before."
        )

    def progress(self, cases: Sequence[StopCase[Replaced]]) -> str:
        replaced = sum(case.answer.replaced_by is not None for case in cases)
        return f"{replaced} of {len(cases)} replaced, {sum(case.answer.gone for case in cases)} gone"

    def judge(self, case: StopCase[Replaced], look: Look[Replaced]) -> None:
        answer = case.answer
        if answer.replaced_by is None:
            answer.replaced_by = _successor(case, look)
        if not answer.gone and answer.replaced_by is None and look.elapsed < _FORGOTTEN_AFTER:
            answer.error = (
                "it stays, as no other could take its place: the log of its supervisor says why"
                if case.taken
                else NOT_TAKEN
            )

    def told(self, answer: Replaced) -> str:
        if answer.replaced_by is None:  # it has come and gone meanwhile
            return f"Worker {answer.worker} is gone."
        return f"Worker {answer.worker} is gone; {answer.replaced_by} works in its place."


def _successor(case: StopCase[Replaced], look: Look[Replaced]) -> str | None:
    """Return the first worker that its supervisor has started since, and that replaces no other."""
    known = {each.answer.worker for each in look.cases} | {each.answer.replaced_by for each in look.cases}
    since: datetime = case.order.until - LASTS
    fresh = [
        worker
        for worker in look.listed.values()
        if worker.info.supervisor == case.worker.info.supervisor
        and worker.started_at >= since
        and worker.info.id not in known
    ]
    return min(fresh, key=lambda worker: worker.started_at).info.id if fresh else None
