"""How jobs with keys are accepted, one after the other, and what becomes of those whose key is taken."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from standfast.core.job import NewJob
from standfast.core.states import CLAIMED, Reason, State
from standfast.store.postgres.keys import Key, holder_of, mark_replaced
from standfast.store.postgres.whereabouts import Whereabouts, withdraw
from standfast.store.refusals import makes_way
from standfast.store.times import span_to_micros, to_micros
from standfast.store.verb import Steps

Keep: TypeAlias = Callable[[Sequence[NewJob], int, str | None], Steps[None]]
"""Stores jobs at a time; they wait for the end of a job, if one is named."""


class Reception:
    """One call of enqueue, whose keys are locked. What is accepted is stored together, as far as that can be.

    `holders` are the jobs that have the keys, `known` the ids of jobs that are there already; `taken` are the jobs
    that were not stored, each with the one that has its key.
    """

    def __init__(
        self, sql: Mapping[str, str], keep: Keep, now: int, holders: dict[Key, Whereabouts], known: set[str]
    ) -> None:
        self.taken: dict[str, str] = {}
        self._sql = sql
        self._keep = keep
        self._now = now
        self._holders = holders
        self._known = known
        self._accepted: list[NewJob] = []

    def receive(self, job: NewJob) -> Steps[None]:
        """Accept a job, or note who has its key."""
        if job.id in self._known:
            return
        self._known.add(job.id)
        after = None
        if job.key is not None:
            key = (job.task, job.key)
            while (holder := self._holders.get(key)) is not None:
                if not makes_way(job, holder.id, holder.state):
                    self.taken[job.id] = holder.id
                    return
                made_way, after = yield from self._make_way(holder)
                if made_way:
                    break
                yield from self._look_again(key)
            self._holders[key] = self._whereabouts(job, after)
        yield from self._accept(job, after)

    def close(self) -> Steps[None]:
        """Store what was accepted and is not stored yet."""
        if self._accepted:
            jobs, self._accepted = self._accepted, []
            yield from self._keep(jobs, self._now, None)

    def _accept(self, job: NewJob, after: str | None) -> Steps[None]:
        if after is None:
            self._accepted.append(job)
        else:
            yield from self.close()
            yield from self._keep([job], self._now, after)

    def _make_way(self, holder: Whereabouts) -> Steps[tuple[bool, str | None]]:
        """Let a job give its key to another; tell whether it was still there, and which job that one has to follow.

        What a job follows is locked before the job itself, as it is by who ends it and sets the other free.
        """
        claimed = holder.id if holder.state in CLAIMED else holder.after
        if claimed is not None and not (yield from mark_replaced(self._sql, claimed, replaced=True)):
            return False, None
        if claimed == holder.id:
            return True, claimed
        yield from self.close()  # it may be a job of this very call
        withdrawn = yield from withdraw(self._sql, holder.id, Reason.REPLACED, self._now)
        return withdrawn, claimed

    def _look_again(self, key: Key) -> Steps[None]:
        """Learn where the holder of a key is, after it was not where it had been."""
        holder = yield from holder_of(self._sql, *key, self._now)
        if holder is None:
            del self._holders[key]
        else:
            self._holders[key] = holder

    def _whereabouts(self, job: NewJob, after: str | None) -> Whereabouts:
        """Return where a job is that is accepted now."""
        run_at = self._now + span_to_micros(job.delay) if job.run_at is None else to_micros(job.run_at)
        state = State.READY if run_at <= self._now else State.SCHEDULED
        return Whereabouts(
            id=job.id,
            task=job.task,
            key=job.key,
            state=state if after is None else State.BLOCKED,
            reason=None if after is None else Reason.REPLACING,
            finished_at=None,
            keep_key=span_to_micros(job.keep_key),
            after=after,
            now=self._now,
        )
