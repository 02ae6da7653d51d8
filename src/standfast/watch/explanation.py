"""Why a job is where it is, as a value: a cause for programs, phrases for people, and what would move it."""

from dataclasses import dataclass
from enum import StrEnum

from standfast.phrases import Phrase
from standfast.words import one_line


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
    """What a job waits for or what became of it: what there is to say, a remedy if there is one, and what else."""

    cause: Cause
    says: Phrase
    remedy: Phrase | None = None
    notes: tuple[Phrase, ...] = ()

    @property
    def text(self) -> str:
        """All of it in English, for people: a few sentences in one line."""
        remedy = "" if self.remedy is None else str(self.remedy)
        remedy = f"{remedy[:1].upper()}{remedy[1:]}." if remedy else ""
        return one_line(" ".join(filter(None, (str(self.says), remedy, *map(str, self.notes)))))
