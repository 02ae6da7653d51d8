"""`holdfast workers recycle`: have workers replaced by fresh ones, without a gap."""

import time
from dataclasses import dataclass
from datetime import datetime

import click
import msgspec

from holdfast.cli.connection import Wanted, about_a_store
from holdfast.cli.failures import ExitCode
from holdfast.cli.options import examples
from holdfast.cli.ordering import find_worker
from holdfast.cli.output import say, say_json, wait_progress
from holdfast.store.backend import Backend
from holdfast.store.errand import run_errand
from holdfast.store.protocol import Worker
from holdfast.supervisor.orders import LASTS, Order, give_order, look_at_order
from holdfast.supervisor.recycling import ORDER
from holdfast.words import counted

_LOOK_EVERY = 0.2

_FORGOTTEN_AFTER = 1.9 * LASTS.total_seconds()
"""Seconds after which that an order is gone no longer means that it was carried out."""


class Answer(msgspec.Struct):
    """What became of one worker, as `--json` prints it. `gone`: it has left; until then it ends what it runs."""

    worker: str
    replaced_by: str | None = None
    gone: bool = False
    error: str | None = None


@dataclass(slots=True)
class _Case:
    worker: Worker
    order: Order
    answer: Answer
    taken: bool = False

    @property
    def over(self) -> bool:
        return self.answer.gone or self.answer.error is not None


@click.command(
    epilog=examples(
        "holdfast workers recycle 1f8a90c2",
        "holdfast workers recycle --all",
        "holdfast workers recycle --all --no-wait",
        "holdfast workers recycle --all --force --json",
    )
)
@click.argument("worker_ids", metavar="[WORKER]...", nargs=-1)
@click.option("--all", "everyone", is_flag=True, help="All workers that live.")
@click.option("--force", is_flag=True, help="Also inside a window in which the app forbids it.")
@click.option("--no-wait", is_flag=True, help="Give the order, and do not wait until it is carried out.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=900.0,
    metavar="SECONDS",
    help="How long to wait; the order stands after that.",
)
@about_a_store
def recycle(
    wanted: Wanted, worker_ids: tuple[str, ...], *, everyone: bool, force: bool, no_wait: bool, timeout: float
) -> None:
    """Replace workers by fresh ones, which import the app anew.

    Each leaves only when the one in its place works, and its running jobs may finish first (setting drain_limit).
    One at a time on each machine, and one machine at a time. WORKER is an id, or the beginning or end of one.
    """
    if bool(worker_ids) == everyone:
        raise click.UsageError("name the workers, or say --all: `holdfast workers` lists the ids")
    with wanted.store() as backend:
        if everyone:
            found = [worker for worker in backend.run(backend.verbs.workers()) if worker.is_live]
        else:
            named = [find_worker(backend, each) for each in worker_ids]
            found = list({worker.info.id: worker for worker in named}.values())
        cases = [_Case(worker, _order(backend, worker, force=force), Answer(worker.info.id)) for worker in found]
        if not wanted.as_json:
            say(_plan(found))
        if not no_wait:
            _wait(backend, cases, timeout)
    answers = [case.answer for case in cases]
    if wanted.as_json:
        say_json(answers)
    elif not no_wait:
        for answer in answers:
            say(_told(answer))
    if any(answer.error for answer in answers):
        raise click.exceptions.Exit(ExitCode.FAILED)


def _order(backend: Backend, worker: Worker, *, force: bool) -> Order:
    details = {"force": "yes"} if force else None
    order: Order = run_errand(backend.run, give_order(backend.verbs, ORDER, worker.info.id, details))
    return order


def _plan(workers: list[Worker]) -> str:
    machines = {worker.info.supervisor for worker in workers}
    if not workers:
        return "No worker lives, and so none is replaced."
    where = "" if len(machines) == 1 else f" of {counted(len(machines), 'supervisor')}"
    return (
        f"{counted(len(workers), 'worker')}{where} will be replaced, one at a time: each leaves when another works"
        " in its place, and ends what it runs before."
    )


def _wait(backend: Backend, cases: list[_Case], timeout: float) -> None:
    begun = time.monotonic()
    with wait_progress() as tell:
        while waiting := [case for case in cases if not case.over]:
            time.sleep(_LOOK_EVERY)
            elapsed = time.monotonic() - begun
            listed = {worker.info.id: worker for worker in backend.run(backend.verbs.workers())}
            for case in waiting:
                _look(backend, case, cases, listed, elapsed)
                if elapsed >= timeout and not case.over:
                    case.answer.error = (
                        f"this was not done within {timeout:g} s; the order stands, and waits for running jobs, or"
                        " for the end of a window that forbids it, for which --force does not wait"
                    )
            replaced = sum(case.answer.replaced_by is not None for case in cases)
            gone = sum(case.answer.gone for case in cases)
            tell(f"{replaced} of {len(cases)} replaced, {gone} gone")


def _look(backend: Backend, case: _Case, cases: list[_Case], listed: dict[str, Worker], elapsed: float) -> None:
    """Learn how far it is with a worker: an order is gone when it was carried out, or in vain."""
    answer = case.answer
    order = run_errand(backend.run, look_at_order(backend.verbs, case.order.id))
    case.taken = case.taken or (order is not None and order.taken)
    if answer.replaced_by is None and order is None:
        answer.replaced_by = _successor(case, cases, listed)
    answer.gone = answer.worker not in listed
    if order is None and not answer.gone and answer.replaced_by is None and elapsed < _FORGOTTEN_AFTER:
        answer.error = (
            "it stays, as no other could take its place: the log of its supervisor says why"
            if case.taken or elapsed < LASTS.total_seconds()
            else "no supervisor took the order: `holdfast workers` tells whether it is still there"
        )


def _successor(case: _Case, cases: list[_Case], listed: dict[str, Worker]) -> str | None:
    """Return the first worker that its supervisor has started since, and that replaces no other."""
    known = {each.answer.worker for each in cases} | {each.answer.replaced_by for each in cases}
    since: datetime = case.order.until - LASTS
    fresh = [
        worker
        for worker in listed.values()
        if worker.info.supervisor == case.worker.info.supervisor
        and worker.started_at >= since
        and worker.info.id not in known
    ]
    return min(fresh, key=lambda worker: worker.started_at).info.id if fresh else None


def _told(answer: Answer) -> str:
    if answer.error is not None:
        return f"Worker {answer.worker}: {answer.error}."
    if answer.replaced_by is None:  # it has come and gone meanwhile
        return f"Worker {answer.worker} is gone."
    return f"Worker {answer.worker} is gone; {answer.replaced_by} works in its place."
