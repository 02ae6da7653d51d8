"""`standfast workers`: who is there to run jobs; have workers replaced, drained or looked at."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import click
import msgspec

from standfast.admin.executor import AdminSession
from standfast.admin.fields import WithId
from standfast.admin.incidents import IncidentSeen, show_one
from standfast.admin.jobs import WhichJob, show_job
from standfast.admin.operation import Operation
from standfast.admin.workers import (
    DumpAsked,
    RecycleAsked,
    WorkerDone,
    WorkerRow,
    drain_worker,
    dump_worker,
    list_workers,
    recycle_worker,
    show_worker,
)
from standfast.cli.columns import worker_columns
from standfast.cli.connection import ListGroup, StoreOptions, examples, store_options, yes_option
from standfast.cli.exit_codes import ExitCode
from standfast.cli.inputs import confirm
from standfast.cli.output import say, say_block, say_heading, say_json, say_list, wait_progress
from standfast.errors import JobStateError, StandfastError
from standfast.model.display import counted
from standfast.model.records import Kind
from standfast.model.states import CLAIMED
from standfast.observe.obstacles import START_A_WORKER
from standfast.stores.backend import Backend
from standfast.stores.verb import run_procedure
from standfast.supervisor.orders import LASTS, forget_order, look_at_order

Command = TypeVar("Command", bound=Callable[..., Any])

_LOOK_EVERY = 0.2
_FORGOTTEN_AFTER = 1.9 * LASTS.total_seconds()
"""Seconds after which that an order is gone no longer means that it was carried out."""

_NOT_TAKEN = "no supervisor took the order: `standfast workers` tells whether it is still there"
_NO_SUCCESSOR = "it stays, as no other could take its place: the log of its supervisor says why"


@click.group(
    cls=ListGroup,
    epilog=examples(
        "standfast workers",
        "standfast workers --json",
        "standfast workers dump 1f8a90c2",
        "standfast workers recycle --all",
        "standfast workers drain 1f8a90c2",
    ),
)
@store_options
def workers(_wanted: StoreOptions) -> None:
    """List workers, look at one, have them replaced or drained."""


@workers.command("list", epilog=examples("standfast workers list", "standfast workers list --json"))
@store_options
def list_command(wanted: StoreOptions) -> None:
    """List the registered workers, oldest first."""
    seen = wanted.run(list_workers)
    nothing = f"No worker is registered; {START_A_WORKER}."
    say_list(wanted, seen.workers, worker_columns(seen.now), nothing)


# Workers that leave: an order for each, and waiting until they are gone.


class Stopped(msgspec.Struct, kw_only=True):
    """What became of one worker, as `--json` prints it. `gone`: it has left; until then it ends what it runs."""

    worker: str
    gone: bool = False
    replaced_by: str | None = None
    error: str | None = None


@dataclass(slots=True)
class _Case:
    """One worker that is to leave, and how far it is with that."""

    worker: WorkerRow
    order: str
    answer: Stopped
    taken: bool = False

    @property
    def over(self) -> bool:
        return self.answer.gone or self.answer.error is not None


@dataclass(frozen=True, slots=True)
class _StopKind:
    """How workers leave: what is ordered, whether others take their places, and what is said about it."""

    operation: Operation[Any, WorkerDone]
    replaces: bool
    waits_for: str
    nobody: str
    plan: str


_DRAIN = _StopKind(
    drain_worker,
    replaces=False,
    waits_for="running jobs",
    nobody="No worker lives, and so none is drained.",
    plan="{who} will be drained, at once: each ends what it runs and leaves, and none takes its place.",
)
_RECYCLE = _StopKind(
    recycle_worker,
    replaces=True,
    waits_for="running jobs, or for the end of a window that forbids it, for which --force does not wait",
    nobody="No worker lives, and so none is replaced.",
    plan="{who} will be replaced, one at a time: each leaves when another works in its place, and ends what it runs"
    " before.",
)


def _stop_options(command: Command) -> Command:
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


@workers.command(
    epilog=examples(
        "standfast workers drain 1f8a90c2",
        "standfast workers drain --all",
        "standfast workers drain --all --yes --no-wait",
        "standfast workers drain --all --yes --timeout 60 --json",
    )
)
@_stop_options
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
    _refuse_none_or_both(worker_ids, everyone)
    with wanted.admin() as admin:
        chosen = _chosen(admin, worker_ids, everyone=everyone)
        if everyone and chosen and not yes:
            confirm(f"Drain {_named(chosen)} for good?")
        _stop(wanted, admin, _DRAIN, chosen, None if no_wait else timeout)


@workers.command(
    epilog=examples(
        "standfast workers recycle 1f8a90c2",
        "standfast workers recycle --all",
        "standfast workers recycle --job 3c2d1e0f",
        "standfast workers recycle --all --no-wait",
        "standfast workers recycle --all --force --json",
    )
)
@_stop_options
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
    _refuse_none_or_both(worker_ids, everyone, job_id)
    with wanted.admin() as admin:
        ids = worker_ids if job_id is None else (_worker_of(admin, job_id),)
        chosen = _chosen(admin, ids, everyone=everyone)
        _stop(wanted, admin, _RECYCLE, chosen, None if no_wait else timeout, force=force)


def _refuse_none_or_both(*ways: object) -> None:
    if sum(map(bool, ways)) != 1:
        raise click.UsageError("name the workers, or say --all: `standfast workers` lists the ids")


def _worker_of(admin: AdminSession, job_id: str) -> str:
    job = admin.run(show_job, WhichJob(id=job_id))
    if job.worker is None or job.state not in CLAIMED:
        raise JobStateError(f"job {job.id} is {job.state}: no worker has it")
    return job.worker


def _chosen(admin: AdminSession, worker_ids: Sequence[str], *, everyone: bool) -> list[WorkerRow]:
    """Return the workers that are meant; first those that do not live, so that they are refused before any order."""
    if everyone:
        return [worker for worker in admin.run(list_workers).workers if worker.live]
    named = [admin.run(show_worker, WithId(id=each)) for each in worker_ids]
    return sorted({worker.id: worker for worker in named}.values(), key=lambda worker: worker.live)


def _named(chosen: Sequence[WorkerRow]) -> str:
    machines = {worker.supervisor for worker in chosen}
    where = "" if len(machines) <= 1 else f" of {counted(len(machines), 'supervisor')}"
    return f"{counted(len(chosen), 'worker')}{where}"


def _stop(
    wanted: StoreOptions,
    admin: AdminSession,
    kind: _StopKind,
    chosen: Sequence[WorkerRow],
    timeout: float | None,
    *,
    force: bool = False,
) -> None:
    """Have workers leave, wait for it, and say what became of them; exit with 1 where one of them stays."""
    since = admin.run(list_workers).now
    cases = []
    for worker in chosen:
        asked = RecycleAsked(id=worker.id, force=force) if kind.replaces else WithId(id=worker.id)
        cases.append(_Case(worker, admin.run(kind.operation, asked).order, Stopped(worker=worker.id)))
    if not wanted.as_json:
        say(kind.plan.format(who=_named(chosen)) if chosen else kind.nobody)
    if timeout is not None:
        _wait(admin, kind, cases, since, timeout)
    if wanted.as_json:
        say_json([case.answer for case in cases])
    elif timeout is not None:
        for case in cases:
            say(f"Worker {case.answer.worker}{_told(kind, case.answer)}.")
    if any(case.answer.error for case in cases):
        raise click.exceptions.Exit(ExitCode.FAILED)


def _told(kind: _StopKind, answer: Stopped) -> str:
    if answer.error:
        return f": {answer.error}"
    if not kind.replaces:
        return " is gone, and its place stays empty"
    # else its successor has come and gone meanwhile
    return f" is gone; {answer.replaced_by} works in its place" if answer.replaced_by else " is gone"


def _wait(admin: AdminSession, kind: _StopKind, cases: Sequence[_Case], since: datetime, timeout: float) -> None:
    """Wait until all are gone, or stay, or it takes too long."""
    begun = time.monotonic()
    too_late = f"this was not done within {timeout:g} s; the order stands, and waits for {kind.waits_for}"
    with wait_progress() as tell:
        while waiting := [case for case in cases if not case.over]:
            time.sleep(_LOOK_EVERY)
            listed = {worker.id: worker for worker in admin.run(list_workers).workers}
            elapsed = time.monotonic() - begun
            for case in waiting:
                case.answer.gone = case.answer.worker not in listed
                if _is_carried_out(admin, case):
                    case.taken = case.taken or elapsed < LASTS.total_seconds()
                    if kind.replaces and case.answer.replaced_by is None:
                        case.answer.replaced_by = _successor(case, cases, listed, since)
                    case.answer.error = _why_it_stays(kind, case, elapsed)
                if elapsed >= timeout and not case.over:
                    case.answer.error = too_late
            replaced = sum(case.answer.replaced_by is not None for case in cases)
            how_many = f"{replaced} of {len(cases)} replaced, " if kind.replaces else f"of {len(cases)} "
            tell(f"{how_many}{sum(case.answer.gone for case in cases)} gone")


def _is_carried_out(admin: AdminSession, case: _Case) -> bool:
    """Learn how far an order is: it is gone when it was carried out, or in vain."""
    order = run_procedure(admin.backend.run, look_at_order(admin.backend.verbs, case.order))
    if order is None:
        return True
    if order.refused:
        case.answer.error = f"it stays: {order.refused}"
        run_procedure(admin.backend.run, forget_order(admin.backend.verbs, order.id))
    case.taken = case.taken or order.taken
    return False


def _why_it_stays(kind: _StopKind, case: _Case, elapsed: float) -> str | None:
    if case.answer.gone or case.answer.replaced_by:
        return None
    if not kind.replaces:
        return None if case.taken else _NOT_TAKEN
    if elapsed >= _FORGOTTEN_AFTER:
        return None
    return _NO_SUCCESSOR if case.taken else _NOT_TAKEN


def _successor(case: _Case, cases: Sequence[_Case], listed: Mapping[str, WorkerRow], since: datetime) -> str | None:
    """Return the first worker that its supervisor has started since, and that replaces no other."""
    known = {each.answer.worker for each in cases} | {each.answer.replaced_by for each in cases}
    fresh = [
        worker
        for worker in listed.values()
        if worker.supervisor == case.worker.supervisor and worker.started_at >= since and worker.id not in known
    ]
    return min(fresh, key=lambda worker: worker.started_at).id if fresh else None


# `standfast workers dump`: a picture of a living worker, kept as an incident.

_SHOWN = ("stacks", "coroutines", "native_stacks", "log")
"""What is printed of it; the rest is kept with it."""


@workers.command(
    epilog=examples("standfast workers dump 1f8a90c2", "standfast workers dump 1f8a90c2 --timeout 60 --json")
)
@click.argument("worker_id", metavar="WORKER")
@click.option(
    "--timeout",
    type=click.FloatRange(min=1, max=3600),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for its supervisor.",
)
@store_options
def dump(wanted: StoreOptions, worker_id: str, timeout: float) -> None:
    """See what a living worker is doing, without harm to it.

    Its supervisor takes the picture with its next beat: the stacks of all threads and coroutines, the jobs that
    run, the end of its log, and what the machine tells of the process. It is kept as an incident. WORKER is an id,
    or the beginning or end of one.
    """
    with wanted.admin() as admin:
        given = admin.run(dump_worker, DumpAsked(id=worker_id, timeout=timeout))

        def written() -> bool:
            return bool(admin.backend.run(admin.backend.verbs.records(Kind.INCIDENT, (given.order,))))

        await_order(admin.backend, "dump", given.id, given.order, timeout, done=written)
        seen = admin.run(show_one, WithId(id=given.order))
    if wanted.as_json:
        say_json(seen)
    else:
        _tell(seen)


def await_order(
    backend: Backend, what: str, worker: str, order_id: str, timeout: float, *, done: Callable[[], bool]
) -> None:
    """Wait until an order is `done`, and take it back then. Raises StandfastError if it is refused, or too late."""
    give_up_at, taken = time.monotonic() + timeout, False
    try:
        with wait_progress() as tell:
            while not done():
                order = run_procedure(backend.run, look_at_order(backend.verbs, order_id))
                taken = taken or order is None or order.taken
                if order is not None and order.refused:
                    raise StandfastError(order.refused)
                tell(
                    f"worker {worker}: {what} is under way" if taken else f"waiting for worker {worker}'s next beat"
                )
                if time.monotonic() >= give_up_at:
                    raise StandfastError(_too_late(what, worker, timeout, taken=taken))
                time.sleep(_LOOK_EVERY)
    finally:
        run_procedure(backend.run, forget_order(backend.verbs, order_id))


def _too_late(what: str, worker: str, timeout: float, *, taken: bool) -> str:
    if taken:
        return f"its supervisor has begun to {what} worker {worker}, and was not done within {timeout:g} s"
    return (
        f"no supervisor took the order to {what} worker {worker} within {timeout:g} s: they look at each beat, a third"
        " of their lease; give more with --timeout, or see with `standfast workers` whether it is there"
    )


def _tell(seen: IncidentSeen) -> None:
    say(f"{seen.summary}.")
    for job in seen.jobs:
        progress = f", {job.progress}" if job.progress else ""
        say(f"  {job.task or 'job'} {job.job}, attempt {job.attempt or '?'}{progress}")
    for name in _SHOWN:
        if name in seen.evidence:
            say_heading(name)
            say_block(seen.evidence[name].text)
    others = ", ".join(name for name in seen.evidence if name not in _SHOWN)
    say(f"\nKept as incident {seen.id}, which has besides: {others}.")
