"""All that a store knows of one job: history, situation, what it wrote down, and what went wrong near it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from standfast.core.incident import Incident
from standfast.core.job import Attempt, Job
from standfast.core.record import Kind, Record, read_body
from standfast.core.states import State
from standfast.durable.written import Written, view_of
from standfast.errors import JobNotFoundError
from standfast.incidents.book import read_incidents
from standfast.incidents.naming import named_in
from standfast.schedule.published import read_windows
from standfast.store.errand import Verbs, errand
from standfast.store.protocol import Situation, Store
from standfast.views.involved import by_job
from standfast.watch.closed import Windows
from standfast.watch.envelope import has_secrets
from standfast.watch.explanation import Explanation
from standfast.watch.why import explain
from standfast.words import short_id


@dataclass(frozen=True, slots=True)
class Story:
    """A job with its history and its situation."""

    situation: Situation
    attempts: tuple[Attempt, ...]
    windows: Windows
    written: Written
    """What it has written down and was sent. With secret arguments no values: they may be made of those."""
    incidents: tuple[Incident, ...]
    """In which it was involved, the newest first."""
    forgotten: tuple[str, ...] = ()
    """The ends of the ids of incidents that its errors name, and that are not kept any more."""
    tasks: Mapping[str, str] = field(default_factory=dict)
    """The isolation of each task that apps have published, by name, where the answer depends on it."""

    @property
    def job(self) -> Job:
        """The job."""
        return self.situation.job

    @property
    def why(self) -> Explanation:
        """Why the job is where it is."""
        present = next((each for each in self.attempts if each.fence == self.job.fence), None)
        return explain(self.situation, present.started_at if present else None, self.windows, self.tasks)


@errand
def tell_story(verbs: Store, job_id: str) -> Verbs[Story]:
    """Return all that the store knows of a job. Raises JobNotFoundError."""
    situation: Situation | None = yield verbs.situation(job_id)
    if situation is None:
        raise JobNotFoundError(f"there is no job {job_id}, or it was removed just now")
    history = yield verbs.history(job_id)
    errors = [situation.job.error, *(each.error for each in history)]
    kept = read_incidents((yield verbs.records(Kind.INCIDENT)))
    incidents = tuple(by_job({job_id: errors}, kept)[job_id])
    named = dict.fromkeys(filter(None, map(named_in, errors)))
    forgotten = tuple(end for end in named if end not in {short_id(each.id) for each in incidents})
    written = view_of((yield verbs.memos(job_id)), values=not has_secrets(situation.job.payload))
    windows = read_windows((yield verbs.records(Kind.WINDOW)))
    tasks = {}
    if situation.job.state is State.BLOCKED or situation.job.cancel_requested:
        tasks = _tasks_in((yield verbs.records(Kind.CATALOGUE)))
    return Story(situation, history, windows, written, incidents, forgotten, tasks)


class _Task(msgspec.Struct):
    name: str
    isolation: str = "none"


class _Published(msgspec.Struct):
    """What is of interest here of a catalogue (`catalogue/entry.py`)."""

    published_at: datetime
    tasks: tuple[_Task, ...] = ()


def _tasks_in(records: Sequence[Record]) -> dict[str, str]:
    """Return the isolation of each task that some app has published, as the newest has it."""
    found = [each for record in records if (each := read_body(record, _Published)) is not None]
    found.sort(key=lambda each: each.published_at)
    return {task.name: task.isolation for each in found for task in each.tasks}
