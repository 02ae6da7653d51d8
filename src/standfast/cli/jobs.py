"""`standfast jobs reschedule`: give jobs that wait to be started another time."""

import hashlib
import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO

import click
import msgspec
from msgspec.structs import replace

from standfast.cli.bulk import BulkRequest, act_on_each, act_on_selected, requeue, selected_by
from standfast.cli.connection import (
    StoreOptions,
    examples,
    given,
    page_options,
    store_options,
    tz_option,
    yes_option,
)
from standfast.cli.exit_codes import wrong_usage
from standfast.cli.inputs import as_span, as_span_with_unit, read_moment, read_pairs
from standfast.cli.job_views import file_columns, file_fields, say_jobs, show
from standfast.cli.lookup import find_job
from standfast.cli.output import say, say_json, say_table
from standfast.cli.workers import await_order
from standfast.durable.files import FileStore, StoredFile, file_store_of, files_among
from standfast.errors import ArgumentsError, JobStateError, StandfastError, StoreError
from standfast.handle import encode_signal, too_late
from standfast.model.clock import SystemClock
from standfast.model.display import in_bytes
from standfast.model.ids import first_id_at, new_job_id
from standfast.model.job import ACTS_ON, SCHEDULE_KEY, Cancellation, Job, JobAction
from standfast.model.memos import signal_name
from standfast.model.states import FINAL, State
from standfast.model.validation import calendar_problems
from standfast.schedules.zones import find_zone
from standfast.stores.backend import Backend
from standfast.stores.contract import ask_time, cancel_job, change_job
from standfast.stores.values import JobFilter
from standfast.stores.verb import run_procedure
from standfast.supervisor.orders import KILL, give_order


def _not_so(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> None:
    """Tell who writes it as in code, with `delay`, how it is written here."""
    if text is not None:
        raise wrong_usage(f"there is no option --delay: say --in {text}")


@click.command(
    epilog=examples(
        "standfast jobs reschedule 3c2d1e0f --at 2026-03-01T09:00+08:00",
        "standfast jobs reschedule 3c2d1e0f --in 2h",
        "standfast jobs reschedule 3c2d1e0f 9f605a4b --at 2026-03-01T09:00 --tz Asia/Taipei --json",
    )
)
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--at", metavar="TIME", help="Be due at this time: 2026-03-01T09:00+08:00, or now.")
@click.option(
    "--in", "span", metavar="SPAN", callback=as_span, help="Be due after this span from now: 90s, 15m, 2h."
)
@click.option("--delay", hidden=True, expose_value=False, callback=_not_so)
@tz_option
@store_options
def reschedule(
    wanted: StoreOptions, /, *, ids: tuple[str, ...], at: str | None, span: timedelta | None, tz: str | None
) -> None:
    """Let scheduled and ready jobs be due at another time.

    Attempts and error stay. A job that has begun, and waits for a time or a signal of its own, is not moved.

    ID is a job's id, or its last characters as the worker shows them.
    """
    if (at is None) == (span is None):
        raise wrong_usage("say when: --at 2026-03-01T09:00+08:00 or --in 2h, one of both")
    moment = None if at is None else read_moment("--at", at, None if tz is None else find_zone(tz))
    for problem in () if moment is None else calendar_problems("--at", moment):
        raise wrong_usage(problem)
    with wanted.store() as backend:
        run_at = moment or backend.run(ask_time(backend.verbs)).now + (span or timedelta())
        act_on_each(wanted, backend, ids, lambda backend, job: _reschedule(backend, job, run_at))


def _reschedule(backend: Backend, job: Job, run_at: datetime) -> str:
    backend.run(change_job(backend.verbs, JobAction.RESCHEDULE, job.id, run_at))
    return "rescheduled"


# `standfast jobs signal`: send a job what its handler waits for.


@click.command(
    epilog=examples(
        "standfast jobs signal 3c2d1e0f approved",
        'standfast jobs signal 3c2d1e0f approved \'{"by": "ada", "limit": 500}\'',
        "standfast jobs signal 3c2d1e0f approved true --json",
    )
)
@click.argument("job_id", metavar="ID")
@click.argument("name", metavar="NAME")
@click.argument("data", default="null", metavar="[DATA]")
@store_options
def signal(wanted: StoreOptions, job_id: str, name: str, data: str) -> None:
    """Send a signal to a job.

    In its handler ctx.wait_for(NAME) returns DATA. A job that waits for it goes on; for any other that is not over
    it is kept until its handler asks for it. DATA is JSON; without it, null. A word alone is no JSON: quote it for
    JSON and for the shell, as in '"yes"'.

    ID is a job's id, or its last characters as the worker shows them.
    """
    try:
        body = encode_signal(name, msgspec.json.decode(data))
    except msgspec.DecodeError as error:
        raise click.BadParameter(
            f"{data!r:.80} is no JSON ({error}); a text needs quotes of its own, as in '\"yes\"'", param_hint="DATA"
        ) from None
    except ArgumentsError as error:
        raise click.BadParameter(str(error)) from None
    with wanted.store() as backend:
        job = find_job(wanted, backend, job_id)
        if not backend.run(backend.verbs.signal(job.id, name, new_job_id(), body)):
            raise too_late(job.id, name)
    waits_for = signal_name(job.reason)
    waited = waits_for == name
    if wanted.as_json:
        say_json({"id": job.id, "signal": name, "waited": waited})
    else:
        instead = "" if waits_for is None else f"; now it waits for signal {waits_for!r}"
        say(f"{job.id}  {'goes on' if waited else f'has it, for when it waits for it{instead}'}")


# `standfast jobs files`: the files that a job has saved, and a copy of one of them.

_AT_ONCE = 1024 * 1024


@click.command(
    epilog=examples(
        "standfast jobs files 3c2d1e0f",
        "standfast jobs files 3c2d1e0f --json",
        "standfast jobs files 3c2d1e0f --get report.csv --to /var/tmp/report.csv",
    )
)
@click.argument("job_id", metavar="ID")
@click.option("--get", "name", metavar="NAME", help="Copy the file of this name.")
@click.option(
    "--to",
    "target",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="Where to: a file that is not there yet, or a folder.  [default: NAME, in the working directory]",
)
@store_options
def files(wanted: StoreOptions, /, *, job_id: str, name: str | None, target: Path | None) -> None:
    """List the files that a job has saved, or copy one.

    ID is a job's id, or its last characters as the worker shows them.

    The store knows their names, sizes and hashes. A copy needs the folder where they are: the one of the setting
    `files`, or that beside a SQLite database. It is checked against the hash.
    """
    if target is not None and name is None:
        raise wrong_usage("--to is for a copy: name the file, --get NAME")
    with wanted.store() as backend:
        job = find_job(wanted, backend, job_id)
        memos = backend.run(backend.verbs.memos(job.id))
    kept = files_among(memos)
    if name is not None:
        copied = _copy(file_store_of(wanted.settings), _named(kept.get(name), name, job.id, list(kept)), target)
        _tell_copied(wanted, kept[name], copied)
    elif wanted.as_json:
        say_json([file_fields(each) for each in kept.values()])
    elif kept:
        say_table(list(kept.values()), file_columns(SystemClock().now()))
    else:
        say("The job has saved no file.")


def _named(kept: StoredFile | None, name: str, job_id: str, names: list[str]) -> StoredFile:
    if kept is None:
        there = f"it has {', '.join(names)}" if names else "it has saved none"
        raise StandfastError(f"job {job_id} has no file {name!r}: {there}")
    return kept


def _copy(shelf: FileStore, kept: StoredFile, target: Path | None) -> Path:
    """Copy a file, whole or not at all; return where it is."""
    source = shelf.find(kept).path
    target = Path(kept.name) if target is None else target / kept.name if target.is_dir() else target
    if target.exists():
        raise wrong_usage(f"--to: {target} is there already, and is not overwritten")
    unfinished = target.with_name(f".{target.name}.part")
    try:
        with source.open("rb") as there, _open_new(unfinished) as here:
            digest = hashlib.sha256()
            while chunk := there.read(_AT_ONCE):
                digest.update(chunk)
                here.write(chunk)
        if digest.hexdigest() != kept.sha256:
            raise StoreError(f"{source} is not what the job has saved: it was changed since, its hash is another")
        unfinished.replace(target)
    except FileNotFoundError as error:
        raise StoreError(
            f"there is no {error.filename}; if the files are kept elsewhere, say where: STANDFAST_FILES=FOLDER"
        ) from error
    finally:
        unfinished.unlink(missing_ok=True)
    return target


def _tell_copied(wanted: StoreOptions, kept: StoredFile, target: Path) -> None:
    if wanted.as_json:
        say_json({**file_fields(kept), "to": str(target)})
    else:
        say(f"{kept.name} ({in_bytes(kept.size)}) copied to {target}.")


def _open_new(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")


# `standfast jobs`: list, cancel and retry jobs; its other commands have files of their own.

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
@store_options
def list_command(wanted: StoreOptions, /, *, came_before: str | None, **narrowed: Any) -> None:
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
@store_options
def cancel(
    wanted: StoreOptions, /, *, ids: tuple[str, ...], everything: bool, yes: bool, kill: bool, **narrowed: Any
) -> None:
    """Cancel jobs: those named, or all that options select.

    Waiting ones end at once; of running ones the worker is told, and their handlers may see it. With --kill,
    running ones that have a process of their own are killed. What runs in the process of its worker is not: for
    that there is `standfast workers recycle --job ID`.

    ID is a job's id, or its last characters as the worker shows them.
    """
    asked = selected_by(**narrowed)
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
            deed = BulkRequest(JobAction.CANCEL, replace(which, states=states), "job", "cancelled", asked)
            act_on_selected(wanted, backend, deed, yes=yes)


def _kill(backend: Backend, job: Job) -> str:
    answer = _cancel(backend, job)
    latest = backend.run(backend.verbs.get(job.id)) or job
    if latest.worker is None or latest.state in FINAL:
        return answer

    def ended() -> bool:
        seen = backend.run(backend.verbs.get(job.id))
        return seen is None or seen.state in FINAL

    try:
        details, lasts = {"job": job.id, "fence": str(latest.fence)}, timedelta(seconds=KILLED_WITHIN)
        order = run_procedure(backend.run, give_order(backend.verbs, KILL, latest.worker, details, lasts))
        await_order(backend, KILL, latest.worker, order.id, KILLED_WITHIN, done=ended)
    except StandfastError as error:
        raise JobStateError(f"job {job.id} is cancelled, and not killed: {error}") from None
    latest = backend.run(backend.verbs.get(job.id)) or job
    return "killed" if latest.state is State.CANCELLED else latest.state.value


def _cancel(backend: Backend, job: Job) -> str:
    answer = backend.run(cancel_job(backend.verbs, job.id))
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
@store_options
def retry(wanted: StoreOptions, ids: tuple[str, ...]) -> None:
    """Run dead jobs again, and scheduled ones now.

    A dead job gets all its attempts again.

    ID is a job's id, or its last characters as the worker shows them.
    """
    with wanted.store() as backend:
        act_on_each(wanted, backend, ids, requeue)
