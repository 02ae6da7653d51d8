"""`standfast dead`: the dead letters, to be tried again or dropped by a person's decision."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import click

from standfast.admin.executor import AdminSession
from standfast.admin.job_search import JobsAsked
from standfast.admin.jobs import JobDone, WhichJob, discard_job, retry_job
from standfast.cli.bulk import Act, BulkRequest, act_on_each, act_on_selected, selected_by
from standfast.cli.connection import StoreOptions, examples, given, page_options, store_options, yes_option
from standfast.cli.exit_codes import wrong_usage
from standfast.cli.job_views import say_jobs
from standfast.errors import JobStateError
from standfast.model.job import Job, JobAction
from standfast.model.states import State
from standfast.stores.values import JobFilter

_ALL_DEAD = JobFilter(states=(State.DEAD,))


@click.group(
    epilog=examples(
        "standfast dead list --error timeout",
        "standfast dead retry --task send_email --error timeout",
        "standfast dead retry --all",
        "standfast dead discard 3c2d1e0f",
    )
)
def dead() -> None:
    """Deal with jobs that failed for good."""


_narrowed = given(
    click.option("--queue", metavar="NAME", help="Only jobs of this queue."),
    click.option("--task", metavar="NAME", help="Only jobs of this task."),
    click.option("--error", metavar="TEXT", help="Only jobs whose error has this text in it."),
)


@dead.command(
    "list", epilog=examples("standfast dead list", "standfast dead list --queue mail --error refused --json")
)
@_narrowed
@page_options
@store_options
def list_command(wanted: StoreOptions, /, **narrowed: Any) -> None:
    """List dead jobs, newest first."""
    only = any(narrowed[name] for name in ("queue", "task", "error", "before"))
    asked = JobsAsked(state=(State.DEAD,), **narrowed)
    say_jobs(wanted, asked, nothing="No dead job matches." if only else "No dead jobs.")


@dataclass(frozen=True, slots=True)
class _Selection:
    """Which dead jobs are meant: those with these ids, or those that the filter selects."""

    ids: tuple[str, ...]
    which: JobFilter
    asked: Mapping[str, str]
    yes: bool


def _selecting(command: Callable[[StoreOptions, _Selection], None]) -> Callable[..., None]:
    """Give a command ids and the options that select; it receives them as one `_Selection`."""

    def with_selection(
        wanted: StoreOptions, /, *, ids: tuple[str, ...], everything: bool, yes: bool, **narrowed: Any
    ) -> None:
        which = JobFilter(states=(State.DEAD,), **narrowed)
        if bool(ids) == (everything or which != _ALL_DEAD):
            raise wrong_usage(
                "give the ids of dead jobs, or --all, or any of --task, --error and --queue, and not both"
            )
        command(wanted, _Selection(ids, which, selected_by(states=which.states, **narrowed), yes))

    with_selection.__doc__ = command.__doc__
    selecting = given(
        click.argument("ids", nargs=-1, metavar="[ID...]"),
        _narrowed,
        click.option("--all", "everything", is_flag=True, help="All dead jobs, after asking."),
        yes_option,
    )
    return selecting(store_options(with_selection))


@dead.command(
    "retry",
    epilog=examples(
        "standfast dead retry 0197b1c2-7d1e-7c3a-9f60-5a4b3c2d1e0f",
        "standfast dead retry --task send_email --error timeout",
        "standfast dead retry --all --yes",
    ),
)
@_selecting
def retry(wanted: StoreOptions, selection: _Selection) -> None:
    """Run dead jobs again, with all their attempts."""
    _deal_with(wanted, selection, JobAction.RETRY, "requeued", _retry)


@dead.command(
    "discard",
    epilog=examples(
        "standfast dead discard 0197b1c2-7d1e-7c3a-9f60-5a4b3c2d1e0f",
        "standfast dead discard --queue reports --error 'no such month'",
    ),
)
@_selecting
def discard(wanted: StoreOptions, selection: _Selection) -> None:
    """Drop dead jobs: they end as cancelled (discarded)."""
    _deal_with(wanted, selection, JobAction.DISCARD, "discarded", _discard)


def _retry(admin: AdminSession, job: Job) -> JobDone:
    if job.state is not State.DEAD:
        raise JobStateError(f"job {job.id} is {job.state}, not dead")
    return admin.run(retry_job, WhichJob(id=job.id))


def _discard(admin: AdminSession, job: Job) -> JobDone:
    return admin.run(discard_job, WhichJob(id=job.id))


def _deal_with(wanted: StoreOptions, selection: _Selection, action: JobAction, became: str, act: Act) -> None:
    if selection.ids:
        act_on_each(wanted, selection.ids, act)
    else:
        deed = BulkRequest(action, selection.which, "dead job", became, selection.asked)
        with wanted.store() as backend:
            act_on_selected(wanted, backend, deed, yes=selection.yes)
