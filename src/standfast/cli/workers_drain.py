"""`standfast workers drain`: have workers leave for good, once what they run has ended."""

from collections.abc import Sequence

import click

from standfast.cli.connection import Wanted, about_a_store
from standfast.cli.leaving import NOT_TAKEN, Answer, Case, Chosen, Look, Manner, have_leave, leaving_options
from standfast.cli.options import examples, yes_option
from standfast.store.protocol import Worker
from standfast.supervisor.drainer import ORDER


@click.command(
    epilog=examples(
        "standfast workers drain 1f8a90c2",
        "standfast workers drain --all",
        "standfast workers drain --all --yes --no-wait",
        "standfast workers drain --all --yes --timeout 60 --json",
    )
)
@leaving_options
@yes_option
@about_a_store
def drain(
    wanted: Wanted, worker_ids: tuple[str, ...], *, everyone: bool, no_wait: bool, timeout: float, yes: bool
) -> None:
    """Have workers take nothing more, end what they run, and leave. None takes their place.

    Running jobs may finish (setting drain_limit); after that it is as at a graceful stop. The places of the workers
    stay empty until their supervisor is restarted, reloaded (SIGHUP) or told to recycle. A supervisor all of whose
    places are drained ends, with exit code 0. All workers are drained after asking only. WORKER is an id, or the
    beginning or end of one.
    """
    have_leave(wanted, Chosen(worker_ids, everyone, None if no_wait else timeout, yes), _Draining())


class _Draining(Manner[Answer]):
    order = ORDER
    waits_for = "running jobs"

    def answer(self, worker: str) -> Answer:
        return Answer(worker=worker)

    def plan(self, workers: Sequence[Worker], who: str) -> str:
        if not workers:
            return "No worker lives, and so none is drained."
        return f"{who} will be drained, at once: each ends what it runs and leaves, and none takes its place."

    def question(self, who: str) -> str:
        return f"Drain {who} for good?"

    def progress(self, cases: Sequence[Case[Answer]]) -> str:
        return f"{sum(case.answer.gone for case in cases)} of {len(cases)} gone"

    def judge(self, case: Case[Answer], look: Look[Answer]) -> None:  # noqa: ARG002 - the order tells enough
        if not (case.taken or case.answer.gone):
            case.answer.error = NOT_TAKEN

    def told(self, answer: Answer) -> str:
        return f"Worker {answer.worker} is gone, and its place stays empty."
