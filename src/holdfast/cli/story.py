"""All that a store knows of one job, as `jobs show` and `why` tell it."""

from dataclasses import dataclass

from holdfast.cli.casebook import by_job, read_casebook
from holdfast.cli.connection import Wanted
from holdfast.cli.lookup import find_job
from holdfast.cli.windows import find_windows
from holdfast.cli.writtenview import read_written
from holdfast.core.incident import Incident
from holdfast.core.job import Attempt, Job
from holdfast.durable.written import Written
from holdfast.errors import JobNotFoundError
from holdfast.incidents.naming import named_in
from holdfast.store.protocol import Situation
from holdfast.watch.closed import Windows
from holdfast.watch.explanation import Explanation
from holdfast.watch.why import explain
from holdfast.words import short_id


@dataclass(frozen=True, slots=True)
class Story:
    """A job with its history and its situation."""

    situation: Situation
    attempts: tuple[Attempt, ...]
    windows: Windows
    written: Written
    """What it has written down and was sent."""
    incidents: tuple[Incident, ...]
    """In which it was involved, the newest first."""
    forgotten: tuple[str, ...] = ()
    """The ends of the ids of incidents that its errors name, and that are not kept any more."""

    @property
    def job(self) -> Job:
        """The job."""
        return self.situation.job

    @property
    def why(self) -> Explanation:
        """Why the job is where it is."""
        present = next((each for each in self.attempts if each.fence == self.job.fence), None)
        return explain(self.situation, present.started_at if present else None, self.windows)


def read_story(wanted: Wanted, job_id: str) -> Story:
    """Return all that the store knows of a job."""
    with wanted.store() as backend:
        job = find_job(wanted, backend, job_id)
        situation = backend.run(backend.verbs.situation(job.id))
        if situation is None:
            raise JobNotFoundError(f"job {job.id} was removed just now")
        history = backend.run(backend.verbs.history(job.id))
        errors = [situation.job.error, *(each.error for each in history)]
        incidents = tuple(by_job({job.id: errors}, read_casebook(backend))[job.id])
        named = dict.fromkeys(filter(None, map(named_in, errors)))
        forgotten = tuple(end for end in named if end not in {short_id(each.id) for each in incidents})
        written = read_written(backend.run(backend.verbs.memos(job.id)), situation.job.payload)
        return Story(situation, history, find_windows(backend), written, incidents, forgotten)
