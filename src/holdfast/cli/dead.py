"""`holdfast dead`: the dead letters, to be tried again or dropped by a person's decision."""

import click

from holdfast.cli.bulk import Act, act_on_all_dead, act_on_each
from holdfast.cli.connection import Wanted, about_a_store
from holdfast.cli.failures import ExitCode, say_failed
from holdfast.cli.helptext import examples
from holdfast.cli.jobs import list_jobs, requeue
from holdfast.cli.output import say, say_json
from holdfast.core.job import Job
from holdfast.core.states import State
from holdfast.errors import JobStateError
from holdfast.store.backend import Backend
from holdfast.store.protocol import JobFilter
from holdfast.watch.words import counted


@click.group(epilog=examples("holdfast dead list", "holdfast dead retry --all", "holdfast dead discard 3c2d1e0f"))
def dead() -> None:
    """Deal with jobs that failed for good."""


@dead.command("list", epilog=examples("holdfast dead list", "holdfast dead list --queue mail --json"))
@click.option("--queue", metavar="NAME", help="Only jobs of this queue.")
@click.option("--task", metavar="NAME", help="Only jobs of this task.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many.")
@click.option("--before", metavar="ID", help="Only jobs older than this one: the next page.")
@about_a_store
def list_command(wanted: Wanted, queue: str | None, task: str | None, limit: int, before: str | None) -> None:
    """List dead jobs, newest first."""
    list_jobs(wanted, JobFilter((State.DEAD,), queue, task, limit, before), nothing="No dead jobs.")


_ids = click.argument("ids", nargs=-1, metavar="[ID...]")
_all = click.option("--all", "everything", is_flag=True, help="All dead jobs, after asking.")
_yes = click.option("--yes", is_flag=True, help="With --all: do not ask.")


@dead.command(
    epilog=examples("holdfast dead retry 0197b1c2-7d1e-7c3a-9f60-5a4b3c2d1e0f", "holdfast dead retry --all --yes")
)
@_ids
@_all
@_yes
@about_a_store
def retry(wanted: Wanted, ids: tuple[str, ...], everything: bool, yes: bool) -> None:
    """Run dead jobs again, with all their attempts."""
    _deal_with(wanted, ids, everything=everything, yes=yes, doing="retry", act=_retry)


@dead.command(
    epilog=examples("holdfast dead discard 0197b1c2-7d1e-7c3a-9f60-5a4b3c2d1e0f", "holdfast dead discard --all")
)
@_ids
@_all
@_yes
@about_a_store
def discard(wanted: Wanted, ids: tuple[str, ...], everything: bool, yes: bool) -> None:
    """Drop dead jobs: they end as cancelled (discarded)."""
    _deal_with(wanted, ids, everything=everything, yes=yes, doing="discard", act=_discard)


def _retry(backend: Backend, job: Job) -> str:
    if job.state is not State.DEAD:
        raise JobStateError(f"job {job.id} is {job.state}, not dead")
    return requeue(backend, job)


def _discard(backend: Backend, job: Job) -> str:
    backend.run(backend.verbs.discard(job.id))
    return "discarded"


def _deal_with(wanted: Wanted, ids: tuple[str, ...], *, everything: bool, yes: bool, doing: str, act: Act) -> None:
    if everything == bool(ids):
        raise click.UsageError("give the ids of dead jobs, or --all, and not both", click.get_current_context())
    with wanted.store() as backend:
        if everything:
            _deal_with_all(wanted, backend, yes=yes, doing=doing, act=act)
        else:
            act_on_each(wanted, backend, ids, act)


def _deal_with_all(wanted: Wanted, backend: Backend, *, yes: bool, doing: str, act: Act) -> None:
    count = backend.run(backend.verbs.count())[State.DEAD]
    if not count:
        say_json({"done": 0}) if wanted.as_json else say("No dead jobs.")
        return
    if not yes:
        _confirm(f"{doing} {counted(count, 'dead job')}?")
    act_on_all_dead(wanted, backend, act)


def _confirm(question: str) -> None:
    try:
        agreed = click.confirm(question.capitalize(), err=True)
    except click.Abort as aborted:
        if isinstance(aborted.__context__, KeyboardInterrupt):
            raise
        raise click.UsageError("nobody is there to confirm; add --yes", click.get_current_context()) from aborted
    if not agreed:
        say_failed("nothing was done")
        raise click.exceptions.Exit(ExitCode.FAILED)
