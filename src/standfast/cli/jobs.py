"""`standfast jobs`: list, show, cancel, retry, reschedule and signal jobs, and copy their files."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO

import click
import msgspec
from msgspec.structs import asdict, replace

from standfast.admin.executor import AdminSession
from standfast.admin.job_search import JobsAsked
from standfast.admin.jobs import (
    CancelAsked,
    JobDone,
    RescheduleAsked,
    SignalAsked,
    WhichJob,
    cancel_job,
    reschedule_job,
    retry_job,
    signal_job,
)
from standfast.cli.bulk import BulkRequest, act_on_each, act_on_selected, selected_by
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
from standfast.cli.job_views import file_columns, read_job, say_jobs, show
from standfast.cli.lookup import find_job
from standfast.cli.output import answer, say_list
from standfast.durable.files import FileStore, StoredFile, file_store_of
from standfast.errors import ArgumentsError, JobStateError, StandfastError, StoreError
from standfast.model.clock import SystemClock
from standfast.model.display import in_bytes
from standfast.model.ids import first_id_at
from standfast.model.job import ACTS_ON, SCHEDULE_KEY, Job, JobAction
from standfast.model.states import FINAL, State
from standfast.model.validation import calendar_problems
from standfast.schedules.zones import find_zone
from standfast.stores.values import JobFilter
from standfast.supervisor.orders import KILL


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
    when = f"{span.total_seconds():f}" if span is not None else moment.isoformat() if moment else ""
    act_on_each(wanted, ids, lambda admin, job: admin.run(reschedule_job, RescheduleAsked(id=job.id, at=when)))


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
        decoded = msgspec.json.decode(data)
        with wanted.admin() as admin:
            job = find_job(wanted, admin.backend, job_id)
            done = admin.run(signal_job, SignalAsked(id=job.id, name=name, data=decoded))
    except msgspec.DecodeError as error:
        raise click.BadParameter(
            f"{data!r:.80} is no JSON ({error}); a text needs quotes of its own, as in '\"yes\"'", param_hint="DATA"
        ) from None
    except ArgumentsError as error:
        raise click.BadParameter(str(error)) from None
    instead = "" if done.waits_for is None else f"; now it waits for signal {done.waits_for!r}"
    answer(wanted, done, f"{job.id}  {'goes on' if done.waited else f'has it, for when it waits for it{instead}'}")


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
    job = read_job(wanted, job_id)
    if name is None:
        say_list(wanted, job.files, file_columns(job.now), "The job has saved no file.")
        return
    kept = next((each for each in job.files if each.name == name), None)
    if kept is None:
        there = f"it has {', '.join(each.name for each in job.files)}" if job.files else "it has saved none"
        raise StandfastError(f"job {job.id} has no file {name!r}: {there}")
    copied = _copy(file_store_of(wanted.settings), StoredFile(**asdict(kept)), target)
    answer(wanted, {**asdict(kept), "to": str(copied)}, f"{kept.name} ({in_bytes(kept.size)}) copied to {copied}.")


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
        callback=as_span_with_unit,
        metavar="SPAN",
        help="Only jobs that came so long ago or before: 2h, 7d.",
    ),
)


def _filter(
    states: Sequence[str],
    metadata: Mapping[str, str],
    schedule: str | None,
    older_than: timedelta | None,
    **narrowed: Any,
) -> JobFilter:
    """Return the filter that the options mean."""
    metadata = {**metadata, SCHEDULE_KEY: schedule} if schedule is not None else metadata
    before = None if older_than is None else first_id_at(SystemClock().now() - older_than)
    return JobFilter(tuple(map(State, states)), metadata=metadata, before=before, **narrowed)


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
def list_command(
    wanted: StoreOptions,
    /,
    *,
    states: tuple[str, ...],
    tags: tuple[str, ...],
    metadata: dict[str, str],
    older_than: timedelta | None,
    limit: int,
    **narrowed: Any,
) -> None:
    """List jobs, newest first."""
    is_all = not any((states, tags, metadata, older_than, *narrowed.values()))
    asked = JobsAsked(
        state=tuple(map(State, states)),
        tag=tags,
        meta=tuple(f"{name}={value}" for name, value in metadata.items()),
        until=None if older_than is None else f"{older_than.total_seconds():f}",
        limit=limit,
        **narrowed,
    )
    say_jobs(wanted, asked, "No job is there." if is_all else "No job matches.")


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
    which = _filter(**narrowed)
    meant = ACTS_ON[JobAction.CANCEL]
    states = tuple(state for state in which.states or State if state in meant)
    if ids:
        act_on_each(wanted, ids, lambda admin, job: _cancel(admin, job.id, kill=kill))
    elif not states:
        dropped = "; dead jobs are dropped by `standfast dead discard`" if State.DEAD in which.states else ""
        raise wrong_usage(
            f"jobs can be cancelled while they are {', '.join(sorted(meant))}: name one of these{dropped}"
        )
    else:
        deed = BulkRequest(JobAction.CANCEL, replace(which, states=states), "job", "cancelled", asked)
        with wanted.store() as backend:
            act_on_selected(wanted, backend, deed, yes=yes)


def _cancel(admin: AdminSession, job_id: str, *, kill: bool) -> JobDone:
    done = admin.run(cancel_job, CancelAsked(id=job_id, kill=kill))
    if done.worker is None or done.order is None:
        return done
    from standfast.cli.workers import await_order  # noqa: PLC0415 - only --kill needs it

    def latest() -> Job | None:
        return admin.backend.run(admin.backend.verbs.get(job_id))

    def ended() -> bool:
        seen = latest()
        return seen is None or seen.state in FINAL

    try:
        await_order(admin.backend, KILL, done.worker, done.order, KILLED_WITHIN, done=ended)
    except StandfastError as error:
        raise JobStateError(f"job {job_id} is cancelled, and not killed: {error}") from None
    seen = latest()
    return replace(done, answer="killed" if seen is None or seen.state is State.CANCELLED else seen.state.value)


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
    act_on_each(wanted, ids, lambda admin, job: admin.run(retry_job, WhichJob(id=job.id)))
