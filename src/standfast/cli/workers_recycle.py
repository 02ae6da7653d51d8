"""`standfast workers recycle`: have workers replaced by fresh ones, without a gap."""

from collections.abc import Sequence
from datetime import datetime

import click

from standfast.cli.connection import Wanted, about_a_store
from standfast.cli.leaving import NOT_TAKEN, Answer, Case, Chosen, Look, Manner, have_leave, leaving_options
from standfast.cli.options import examples
from standfast.store.protocol import Worker
from standfast.supervisor.orders import LASTS
from standfast.supervisor.recycling import ORDER

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
@leaving_options
@click.option("--job", "job_id", metavar="ID", help="The worker that has this job.")
@click.option("--force", is_flag=True, help="Also inside a window in which the app forbids it.")
@about_a_store
def recycle(
    wanted: Wanted,
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
    have_leave(wanted, chosen, _Recycling(), {"force": "yes"} if force else None)


class _Recycling(Manner[Replaced]):
    order = ORDER
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

    def progress(self, cases: Sequence[Case[Replaced]]) -> str:
        replaced = sum(case.answer.replaced_by is not None for case in cases)
        return f"{replaced} of {len(cases)} replaced, {sum(case.answer.gone for case in cases)} gone"

    def judge(self, case: Case[Replaced], look: Look[Replaced]) -> None:
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


def _successor(case: Case[Replaced], look: Look[Replaced]) -> str | None:
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
