"""One page of jobs, as `jobs list` and `dead list` print it."""

from msgspec.structs import replace

from holdfast.cli.connection import Wanted
from holdfast.cli.jobview import job_columns, job_fields
from holdfast.cli.lookup import find_job
from holdfast.cli.output import say, say_json, say_table
from holdfast.clock import SystemClock
from holdfast.core.states import State
from holdfast.store.protocol import JobFilter
from holdfast.words import counted


def say_jobs(wanted: Wanted, which: JobFilter, nothing: str) -> None:
    """Print the jobs that are selected, and how to see the next page; `nothing` where there are none."""
    with wanted.store() as backend:
        if which.before is not None:
            which = replace(which, before=find_job(wanted, backend, which.before).id)
        found = backend.run(backend.verbs.list_jobs(which))
    if wanted.as_json:
        say_json([job_fields(job) for job in found])
    elif not found:
        say(nothing)
    else:
        say_table(found, job_columns(SystemClock().now(), dead=which.states == (State.DEAD,)))
        if len(found) == which.limit:
            say(f"\nThe newest {counted(len(found), 'job')}; for older ones add --before {found[-1].id}")
