"""Why a job is where it is, as a value: a cause for programs, words for people, and what would move it."""

from dataclasses import dataclass
from enum import StrEnum

from holdfast.words import one_line


class Cause(StrEnum):
    """Why a job is where it is, in a word for programs."""

    NOT_DUE = "not_due"
    RETRY_WAIT = "retry_wait"
    PUT_OFF = "put_off"
    SLEEPING = "sleeping"
    WAITING_FOR_SIGNAL = "waiting_for_signal"
    CLOSED = "closed"
    QUEUE_PAUSED = "queue_paused"
    NO_WORKER = "no_worker"
    NOT_SERVED = "not_served"
    TASK_UNKNOWN = "task_unknown"
    SUSPECT = "suspect"
    BUSY = "busy"
    IN_LINE = "in_line"
    NEXT = "next"
    NOT_TAKEN = "not_taken"
    REPLACING = "replacing"
    BLOCKED = "blocked"
    HELD = "held"
    NOT_STARTED = "not_started"
    RUNNING = "running"
    WORKER_LOST = "worker_lost"
    COMPLETED = "completed"
    DEAD = "dead"
    CANCELLED = "cancelled"
    DISCARDED = "discarded"
    REPLACED = "replaced"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a job waits for or what became of it: a sentence, a remedy if there is one, and what else matters."""

    cause: Cause
    says: str
    remedy: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """All of it, for people: a few sentences in one line."""
        remedy = None if self.remedy is None else f"{self.remedy[:1].upper()}{self.remedy[1:]}."
        return one_line(" ".join(filter(None, (self.says, remedy, *self.notes))))
