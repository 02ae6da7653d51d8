"""Many jobs changed by one act: by one call for all of them, and one by one what that call leaves as it is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from standfast.core.job import Cancellation, JobAction
from standfast.core.states import CLAIMED, WAITING, State
from standfast.errors import ConfigurationError, JobNotFoundError, JobStateError, KeyTakenError
from standfast.store.errand import Verbs, errand
from standfast.store.protocol import Store
from standfast.store.verb import Verb

ACTS_ON: Mapping[JobAction, frozenset[State]] = {
    JobAction.RETRY: frozenset({State.DEAD, State.SCHEDULED}),
    JobAction.CANCEL: WAITING | CLAIMED,
    JobAction.RESCHEDULE: frozenset({State.SCHEDULED, State.READY}),
    JobAction.DISCARD: frozenset({State.DEAD}),
}
"""In which states something can be done to a job."""

AT_ONCE = 1_000
"""So many jobs are changed by one call: longer it would keep others waiting."""


@dataclass(slots=True)
class Changes:
    """What became of jobs so far: done, no longer as they were selected, or refused, with the reason."""

    done: int = 0
    passed_over: int = 0
    refused: list[tuple[str, KeyTakenError]] = field(default_factory=list)

    @property
    def seen(self) -> int:
        """How many jobs were dealt with."""
        return self.done + self.passed_over + len(self.refused)


@errand
def change_many(
    verbs: Store, changes: Changes, action: JobAction, job_ids: Sequence[str], run_at: datetime | None = None
) -> Verbs[None]:
    """Do something to jobs, at most AT_ONCE of them, and add to `changes` what became of each."""
    if action is JobAction.RESCHEDULE and run_at is None:
        raise ConfigurationError("say when the jobs are to run")
    changed: frozenset[str] = yield verbs.change_jobs(action, job_ids, run_at)
    changes.done += len(changed)
    for job_id in job_ids:
        if job_id in changed:
            continue
        try:
            answer = yield _alone(verbs, action, job_id, run_at)
        except KeyTakenError as error:
            changes.refused.append((job_id, error))
        except (JobNotFoundError, JobStateError):  # it is no longer as it was selected: that is settled
            changes.passed_over += 1
        else:
            changes.done += answer is not Cancellation.TOO_LATE
            changes.passed_over += answer is Cancellation.TOO_LATE


def _alone(verbs: Store, action: JobAction, job_id: str, run_at: datetime | None) -> Verb[Any]:
    match action:
        case JobAction.RETRY:
            return verbs.requeue(job_id)
        case JobAction.CANCEL:
            return verbs.cancel(job_id)
        case JobAction.DISCARD:
            return verbs.discard(job_id)
        case JobAction.RESCHEDULE:
            assert run_at is not None  # else it was refused
            return verbs.reschedule(job_id, run_at)
