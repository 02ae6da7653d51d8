"""How jobs are accepted, and what becomes of those whose key is taken."""

from collections import ChainMap
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from standfast.core.job import NewJob
from standfast.core.states import CLAIMED, Reason, State
from standfast.store.memory.rows import JobRow
from standfast.store.refusals import makes_way

Key: TypeAlias = tuple[str, str]
"""A task and a key of it."""


def key_of(new: NewJob) -> Key | None:
    """Return the key of a job with its scope, if it has one."""
    return None if new.key is None else (new.task, new.key)


@dataclass(slots=True)
class Reception:
    """One call of enqueue. It writes into maps of its own, so that a refusal leaves everything as it was.

    `holders` says which job was last accepted with a key; `taken` are the jobs that were not stored, each with the
    one that has its key.
    """

    jobs: ChainMap[str, JobRow]
    holders: ChainMap[Key, str]
    now: datetime
    taken: dict[str, str] = field(default_factory=dict)

    def receive(self, new: NewJob, arrival: int) -> None:
        """Accept a job, or note who has its key. A job whose id is known already is left as it is."""
        if new.id in self.jobs:
            return
        row = JobRow.accepted(new, arrival, self.now)
        key = key_of(new)
        holder = None if key is None else self._holder(key)
        if holder is not None and not self._makes_way(holder, row):
            self.taken[new.id] = holder.new.id
            return
        self.jobs[new.id] = row
        if key is not None:
            self.holders[key] = new.id

    def _holder(self, key: Key) -> JobRow | None:
        holder = self.jobs[self.holders[key]] if key in self.holders else None
        return holder if holder is not None and holder.has_key(self.now) else None

    def _makes_way(self, holder: JobRow, row: JobRow) -> bool:
        """Tell whether the holder gives its key to the new job, and let it do so."""
        if not makes_way(row.new, holder.new.id, holder.state_at(self.now)):
            return False
        if holder.state in CLAIMED:
            row.follow(self._own(holder.new.id))
            return True
        if holder.after is not None:
            row.follow(self._own(holder.after))
        self._own(holder.new.id).end(State.CANCELLED, self.now, Reason.REPLACED)
        return True

    def _own(self, job_id: str) -> JobRow:
        """Return a copy of the job that belongs to this call."""
        row = self.jobs[job_id] = copy(self.jobs[job_id])
        return row
