"""How a search that looks at some jobs only becomes a page, the same in every store."""

from collections.abc import Sequence

from msgspec.structs import replace

from standfast.core.job import Job
from standfast.store.looking import JobFilter, JobPage


def within(which: JobFilter, end: Sequence[str]) -> JobFilter:
    """Return the filter that stops where a look ends: at the last job to look at, before the one beyond it."""
    return replace(which, after=end[1]) if len(end) > 1 else which


def page_of(which: JobFilter, found: tuple[Job, ...], end: Sequence[str] = ()) -> JobPage:
    """Return what was found, with where to go on: after a full page its last job, else the last one looked at."""
    if len(found) >= which.limit > 0:
        return JobPage(found, found[-1].id)
    return JobPage(found, end[0] if len(end) > 1 else None)
