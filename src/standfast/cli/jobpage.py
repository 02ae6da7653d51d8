"""One page of jobs, as `jobs list` and `dead list` print it."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from standfast.cli.casebook import read_casebook
from standfast.cli.connection import Wanted
from standfast.cli.jobview import job_columns
from standfast.cli.lookup import find_job
from standfast.cli.output import say, say_json, say_table
from standfast.clock import SystemClock
from standfast.core.job import Job
from standfast.core.states import State
from standfast.store.backend import Backend
from standfast.store.protocol import JobFilter
from standfast.views.involved import by_job
from standfast.watch.jobfields import job_fields, waits_for
from standfast.words import counted


def say_jobs(wanted: Wanted, which: JobFilter, nothing: str, below: str | None = None) -> None:
    """Print the jobs that are selected, with ids below this one, and how to see the next page; or `nothing`."""
    with wanted.store() as backend:
        if which.before is not None:
            which = replace(which, before=find_job(wanted, backend, which.before).id)
        if below is not None:
            which = replace(which, before=min(below, which.before or below))
        found = backend.run(backend.verbs.list_jobs(which))
        dead = which.states == (State.DEAD,)
        incidents = _ids_by_job(backend, found) if dead and found else {}
    if wanted.as_json:
        more = [{"incidents": incidents.get(job.id, ())} if dead else {} for job in found]
        say_json([{**job_fields(job), **each} for job, each in zip(found, more, strict=True)])
    elif not found:
        say(nothing)
    else:
        progress = any(job.progress is not None and job.state is State.RUNNING for job in found)
        waiting = any(waits_for(job) for job in found)
        columns = job_columns(
            SystemClock().now(), dead=dead, progress=progress, waiting=waiting, incidents=incidents
        )
        say_table(found, columns)
        if len(found) == which.limit:
            say(f"\nThe newest {counted(len(found), 'job')}; for older ones add --before {found[-1].id}")


def _ids_by_job(backend: Backend, jobs: Iterable[Job]) -> Mapping[str, Sequence[str]]:
    found = by_job({job.id: [job.error] for job in jobs}, read_casebook(backend))
    return {job_id: [each.id for each in incidents] for job_id, incidents in found.items() if incidents}
