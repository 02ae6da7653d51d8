"""`standfast jobs`: list, cancel and retry jobs; its other commands have files of their own."""

from typing import Any

import click
from msgspec.structs import replace

from standfast.cli.bulk import Deed, act_on_each, act_on_selected, asked_of, requeue
from standfast.cli.connection import Wanted, about_a_store
from standfast.cli.failures import wrong_usage
from standfast.cli.jobpage import say_jobs
from standfast.cli.jobs_files import files
from standfast.cli.jobs_reschedule import reschedule
from standfast.cli.jobs_show import show
from standfast.cli.jobs_signal import signal
from standfast.cli.options import examples, given, page_options, yes_option
from standfast.cli.ordering import have_done
from standfast.cli.typed import as_span_with_unit, read_pairs
from standfast.clock import SystemClock
from standfast.core.job import Cancellation, Job, JobAction
from standfast.core.provenance import SCHEDULE_KEY
from standfast.core.states import FINAL, State
from standfast.errors import JobStateError, StandfastError
from standfast.ids import first_id_at
from standfast.store.backend import Backend
from standfast.store.bulk import ACTS_ON
from standfast.store.protocol import JobFilter
from standfast.supervisor.orders import KILL, Order

KILLED_WITHIN = 60.0
"""Seconds for the supervisor to hear of it with a beat, and for the process to be gone."""


@click.group(
    epilog=examples(
        "standfast jobs list --state running",
        "standfast jobs show 3c2d1e0f",
        "standfast jobs cancel 3c2d1e0f",
        "standfast jobs retry 3c2d1e0f",
        "standfast jobs reschedule 3c2d1e0f --in 2h",
        "standfast jobs signal 3c2d1e0f approved",
    )
)
def jobs() -> None:
    """Look at jobs, cancel, retry, move and signal them."""


jobs.add_command(show)
jobs.add_command(files)
jobs.add_command(signal)
jobs.add_command(reschedule)


def _as_mapping(_ctx: click.Context, _parameter: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    return read_pairs(pairs, bool, "NAME=VALUE, as in `--meta customer=42`")


def _id_of_age(ctx: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    """Read an option as an age; return the id below which jobs are so old."""
    age = as_span_with_unit(ctx, parameter, text)
    return None if age is None else first_id_at(SystemClock().now() - age)


_narrowed = given(
    click.option(
        "--state",
        "states",
        multiple=True,
        type=click.Choice([state.value for state in State]),
        help="Only jobs in this state; may be given several times.",
    ),
    click.option("--queue", metavar="NAME", help="Only jobs of this queue."),
    click.option("--task", metavar="NAME", help="Only jobs of this task."),
    click.option("--key", metavar="KEY", help="Only the jobs with this key."),
    click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only jobs with this tag; several: with all."),
    click.option(
        "--meta",
        "metadata",
        multiple=True,
        metavar="NAME=VALUE",
        callback=_as_mapping,
        help="Only jobs with this metadata; several: with all.",
    ),
    click.option("--schedule", metavar="NAME", help="Only jobs of this schedule."),
    click.option("--error", metavar="TEXT", help="Only jobs whose last error has this text in it."),
    click.option(
        "--older-than",
        "came_before",
        callback=_id_of_age,
        metavar="SPAN",
        help="Only jobs that came so long ago or before: 2h, 7d.",
    ),
)


def _filter(narrowed: dict[str, Any]) -> JobFilter:
    """Return the filter that the options mean."""
    states, schedule = narrowed.pop("states"), narrowed.pop("schedule")
    if schedule is not None:
        narrowed["metadata"] = {**narrowed["metadata"], SCHEDULE_KEY: schedule}
    return JobFilter(tuple(State(state) for state in states), **narrowed)


@jobs.command(
    "list",
    epilog=examples(
        "standfast jobs list",
        "standfast jobs list --state ready --state running --queue mail",
        "standfast jobs list --task send_email --limit 200 --json",
        "standfast jobs list --tag import --meta customer=42",
        "standfast jobs list --schedule nightly --error timeout",
    ),
)
@_narrowed
@page_options
@about_a_store
def list_command(wanted: Wanted, /, *, came_before: str | None, **narrowed: Any) -> None:
    """List jobs, newest first."""
    which = _filter(narrowed)
    is_all = which == JobFilter(limit=which.limit) and came_before is None
    say_jobs(wanted, which, "No job is there." if is_all else "No job matches.", came_before)


@jobs.command(
    epilog=examples(
        "standfast jobs cancel 0197b1c2-7d1e-7c3a-9f60-5a4b3c2d1e0f",
        "standfast jobs cancel 3c2d1e0f",
        "standfast jobs cancel --kill 3c2d1e0f",
        "standfast jobs cancel --task send_email --state scheduled",
        "standfast jobs cancel --queue mail --older-than 2d --yes",
    )
)
@click.argument("ids", nargs=-1, metavar="[ID...]")
@_narrowed
@click.option("--all", "everything", is_flag=True, help="All jobs that are not over, after asking.")
@yes_option
@click.option(
    "--kill", is_flag=True, help="End running ones at once, with the process of their own (isolation='process')."
)
@about_a_store
def cancel(
    wanted: Wanted, /, *, ids: tuple[str, ...], everything: bool, yes: bool, kill: bool, **narrowed: Any
) -> None:
    """Cancel jobs: those named, or all that options select.

    Waiting ones end at once; of running ones the worker is told, and their handlers may see it. With --kill,
    running ones that have a process of their own are killed. What runs in the process of its worker is not: for
    that there is `standfast workers recycle --job ID`.

    ID is a job's id, or its last characters as the worker shows them.
    """
    asked = asked_of(**narrowed)
    if bool(ids) == (everything or bool(asked)):
        raise wrong_usage("give the ids of jobs, or --all, or options that select some, and not both")
    if kill and not ids:
        raise wrong_usage("--kill is for jobs that are named by their ids")
    which = _filter({"before": narrowed.pop("came_before"), **narrowed})
    meant = ACTS_ON[JobAction.CANCEL]
    states = tuple(state for state in which.states or State if state in meant)
    with wanted.store() as backend:
        if ids:
            act_on_each(wanted, backend, ids, _kill if kill else _cancel)
        elif not states:
            dropped = "; dead jobs are dropped by `standfast dead discard`" if State.DEAD in which.states else ""
            raise wrong_usage(
                f"jobs can be cancelled while they are {', '.join(sorted(meant))}: name one of these{dropped}"
            )
        else:
            deed = Deed(JobAction.CANCEL, replace(which, states=states), "job", "cancelled", asked)
            act_on_selected(wanted, backend, deed, yes=yes)


def _kill(backend: Backend, job: Job) -> str:
    answer = _cancel(backend, job)
    latest = backend.run(backend.verbs.get(job.id)) or job
    if latest.worker is None or latest.state in FINAL:
        return answer

    def ended(_: Order) -> bool:
        seen = backend.run(backend.verbs.get(job.id))
        return seen is None or seen.state in FINAL

    try:
        have_done(
            backend,
            KILL,
            latest.worker,
            KILLED_WITHIN,
            {"job": job.id, "fence": str(latest.fence)},
            done=ended,
        )
    except StandfastError as error:
        raise JobStateError(f"job {job.id} is cancelled, and not killed: {error}") from None
    latest = backend.run(backend.verbs.get(job.id)) or job
    return "killed" if latest.state is State.CANCELLED else latest.state.value


def _cancel(backend: Backend, job: Job) -> str:
    answer = backend.run(backend.verbs.cancel(job.id))
    if answer is Cancellation.TOO_LATE and job.state is not State.CANCELLED:
        latest = backend.run(backend.verbs.get(job.id)) or job
        raise JobStateError(f"job {job.id} is {latest.state}: too late to cancel it")
    return "cancelled" if answer is Cancellation.TOO_LATE else answer.value


@jobs.command(
    epilog=examples(
        "standfast jobs retry 0197b1c2-7d1e-7c3a-9f60-5a4b3c2d1e0f", "standfast jobs retry 3c2d1e0f --json"
    )
)
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@about_a_store
def retry(wanted: Wanted, ids: tuple[str, ...]) -> None:
    """Run dead jobs again, and scheduled ones now.

    A dead job gets all its attempts again.

    ID is a job's id, or its last characters as the worker shows them.
    """
    with wanted.store() as backend:
        act_on_each(wanted, backend, ids, requeue)
