"""Having workers leave, in one manner or another: which ones, an order for each, waiting until they are gone."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import click
import msgspec

from standfast.cli.confirming import confirm
from standfast.cli.connection import Wanted
from standfast.cli.failures import ExitCode
from standfast.cli.lookup import find_job
from standfast.cli.ordering import find_worker
from standfast.cli.output import say, say_json
from standfast.cli.progress import wait_progress
from standfast.core.states import CLAIMED
from standfast.errors import JobStateError
from standfast.store.backend import Backend
from standfast.store.errand import run_errand
from standfast.store.protocol import Worker
from standfast.supervisor.orders import LASTS, Order, forget_order, give_order, look_at_order
from standfast.words import counted

_LOOK_EVERY = 0.2

NOT_TAKEN = "no supervisor took the order: `standfast workers` tells whether it is still there"

Command = TypeVar("Command", bound=Callable[..., Any])


class Answer(msgspec.Struct, kw_only=True):
    """What became of one worker, as `--json` prints it. `gone`: it has left; until then it ends what it runs."""

    worker: str
    gone: bool = False
    error: str | None = None


A = TypeVar("A", bound=Answer)


@dataclass(slots=True)
class Case(Generic[A]):
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

    cases: Sequence[Case[A]]
    listed: Mapping[str, Worker]
    elapsed: float


class Manner(ABC, Generic[A]):
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
    def progress(self, cases: Sequence[Case[A]]) -> str:
        """Say how far it is."""

    @abstractmethod
    def judge(self, case: Case[A], look: Look[A]) -> None:
        """Learn from the end of an order how it is with a worker that is still there, or why it stays."""

    @abstractmethod
    def told(self, answer: A) -> str:
        """Say what became of a worker."""


def leaving_options(command: Command) -> Command:
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

    def find(self, wanted: Wanted, backend: Backend) -> list[Worker]:
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


def have_leave(wanted: Wanted, chosen: Chosen, manner: Manner[A], details: Mapping[str, str] | None = None) -> None:
    """Have workers leave, wait for it, and say what became of them; exit with 1 where one of them stays."""
    if sum(map(bool, (chosen.worker_ids, chosen.everyone, chosen.job_id))) != 1:
        raise click.UsageError("name the workers, or say --all: `standfast workers` lists the ids")
    with wanted.store() as backend:
        workers = chosen.find(wanted, backend)
        question = manner.question(_named(workers)) if chosen.everyone and workers else None
        if question is not None and not chosen.yes:
            confirm(question)
        cases = [
            Case(worker, _order(backend, manner.order, worker, details), manner.answer(worker.info.id))
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
    order: Order = run_errand(backend.run, give_order(backend.verbs, what, worker.info.id, details))
    return order


def _named(workers: Sequence[Worker]) -> str:
    machines = {worker.info.supervisor for worker in workers}
    where = "" if len(machines) <= 1 else f" of {counted(len(machines), 'supervisor')}"
    return f"{counted(len(workers), 'worker')}{where}"


def _wait(backend: Backend, manner: Manner[A], cases: Sequence[Case[A]], timeout: float) -> None:
    begun = time.monotonic()
    too_late = f"this was not done within {timeout:g} s; the order stands, and waits for {manner.waits_for}"
    with wait_progress() as tell:
        while waiting := [case for case in cases if not case.over]:
            time.sleep(_LOOK_EVERY)
            listed = {worker.info.id: worker for worker in backend.run(backend.verbs.workers())}
            look = Look(cases, listed, time.monotonic() - begun)
            for case in waiting:
                _learn(backend, manner, case, look)
                if look.elapsed >= timeout and not case.over:
                    case.answer.error = too_late
            tell(manner.progress(cases))


def _learn(backend: Backend, manner: Manner[A], case: Case[A], look: Look[A]) -> None:
    """Learn how far it is with a worker: an order is gone when it was carried out, or in vain."""
    order = run_errand(backend.run, look_at_order(backend.verbs, case.order.id))
    case.answer.gone = case.answer.worker not in look.listed
    if order is None:
        case.taken = case.taken or look.elapsed < LASTS.total_seconds()
        manner.judge(case, look)
    elif order.refused:
        case.answer.error = f"it stays: {order.refused}"
        run_errand(backend.run, forget_order(backend.verbs, order.id))
    else:
        case.taken = case.taken or order.taken
