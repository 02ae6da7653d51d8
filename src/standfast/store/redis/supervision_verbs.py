"""Workers: their registration, their beats, the mark of the dead; and what is tidied up.

Each verb is one script, and the server runs one script at a time: so beats, claims, condemnations and burials never
meet halfway. `condemn` judges the lease in the same step in which it marks; a beat of a marked worker is refused; a
vanished worker is buried only with the mark; and from its burial on the worker is not registered, which claims and
beats look at in their own step.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta

from standfast.core.job import ClaimRef
from standfast.core.record import Kind
from standfast.core.vitals import write_vitals
from standfast.errors import ValueNotStoredError
from standfast.store.protocol import BURIED_KEPT, BeatAnswer, DueSuspects, WorkerBeat, WorkerInfo
from standfast.store.redis.packing import pack
from standfast.store.redis.rows import Row, fences, group_of, to_ref, to_task, to_time, to_turn, write_registration
from standfast.store.redis.versions import FORMAT
from standfast.store.times import from_micros, span_from_micros, span_to_micros, to_micros_or_none
from standfast.store.verb import Access, Script, Steps, verb

LONGEST_LEASE = timedelta(days=36_500)
"""The server counts micros in doubles, which tell times of the next centuries exactly."""

STRETCH = 500
"""So many dead jobs are looked at in one call, so that many that stay do not make it long."""

_KINDS_THAT_COME_DUE = pack([kind.value for kind in Kind if kind is not Kind.STORE])
"""As a beat asks for them; each costs it a command."""


class SupervisionVerbs:
    """Register, beat, condemn, forget results and jobs. Each process remembers which dead jobs it looks at next."""

    def __init__(self) -> None:
        super().__init__()
        self._dead_up_to = ""

    @verb(Access.WRITE)
    def register(self, worker: WorkerInfo) -> Steps[None]:
        """Make the worker known and alive from now on."""
        if abs(worker.lease) > LONGEST_LEASE:
            raise ValueNotStoredError(f"Redis cannot store a lease of over {LONGEST_LEASE.days} days")
        spans = (span_to_micros(worker.lease), span_to_micros(BURIED_KEPT))
        said = write_registration(worker)
        yield Script("register", (worker.id, *spans, said, FORMAT, group_of(worker.queues)))

    @verb(Access.BEAT)
    def beat(self, beats: Sequence[WorkerBeat]) -> Steps[BeatAnswer]:
        """Renew leases: refused to a condemned or unregistered worker, granted to any other, however late."""
        named = [
            (
                beat.worker,
                beat.closed_call,
                fences(beat.held),
                to_micros_or_none(beat.polled_at),
                write_vitals(beat.vitals),
            )
            for beat in beats
        ]
        reply = yield Script("beat", (pack(named), _KINDS_THAT_COME_DUE))
        now, accepted, revoked, replaced, paused, unnamed, expired, next_expiry, unknown, suspects, *rest = reply
        turns, record_due_at = rest
        return BeatAnswer(
            accepted=_names(accepted),
            now=from_micros(int(now)),
            revoked=_refs_by_worker(revoked),
            replaced=_refs_by_worker(replaced),
            paused=_names(paused),
            unnamed=_names(unnamed),
            expired=_names(expired),
            next_expiry=None if next_expiry is None else span_from_micros(int(next_expiry)),
            blocked=frozenset(map(to_task, unknown)),
            suspects=frozenset(DueSuspects(queue.decode(), group, jobs) for queue, group, jobs in suspects),
            turns={worker.decode(): to_turn(*turn) for worker, *turn in turns},
            record_due_at=None if record_due_at is None else to_time(record_due_at),
        )

    @verb(Access.BEAT)
    def condemn(self, workers: frozenset[str]) -> Steps[frozenset[str]]:
        """Mark those dead whose lease has run out *now*, atomically against their beats."""
        marked = yield Script("condemn", (pack(list(workers)),))
        return _names(marked)

    @verb(Access.WRITE)
    def forget_results(self, limit: int) -> Steps[int]:
        """Forget at most `limit` results whose time is over, for good; return how many."""
        forgotten: int = yield Script("forget_results", (limit,))
        return forgotten

    @verb(Access.WRITE)
    def forget_jobs(self, age: timedelta, limit: int) -> Steps[int]:
        """Forget at most `limit` jobs that completed or were cancelled longer than `age` ago; return how many."""
        forgotten: int = yield Script("forget_jobs", ("ended", span_to_micros(age), limit))
        return forgotten

    @verb(Access.WRITE)
    def forget_dead(self, keep: timedelta | int, limit: int) -> Steps[int]:
        """Forget at most `limit` dead jobs older than `keep`, or all but so many; return how many."""
        forgotten: int
        if isinstance(keep, int):
            forgotten = yield Script("forget_jobs", ("surplus_dead", keep, limit))
        else:
            asked = ("dead", span_to_micros(keep), limit, self._dead_up_to, STRETCH)
            forgotten, go_on = yield Script("forget_jobs", asked)
            self._dead_up_to = go_on.decode()
        return forgotten


def _names(words: Row) -> frozenset[str]:
    return frozenset(word.decode() for word in words)


def _refs_by_worker(flat: Row) -> dict[str, tuple[ClaimRef, ...]]:
    refs: defaultdict[str, list[ClaimRef]] = defaultdict(list)
    for worker, job_id, fence in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
        refs[worker.decode()].append(to_ref(job_id, fence))
    return {worker: tuple(sorted(own)) for worker, own in refs.items()}
