"""Who has a key: one row says which job was last accepted with it, and that job's own whether it still has it."""

from collections.abc import Mapping
from dataclasses import dataclass

from standfast.core.states import FINAL, State
from standfast.store.sqlite.rows import state_of
from standfast.store.times import from_micros
from standfast.store.verb import Query, Steps


@dataclass(frozen=True, slots=True)
class Holder:
    """The job that has a key of its task. `after` is the claimed job that it waits for as blocked(replacing)."""

    task: str
    key: str
    seq: int
    id: str
    state: State
    after: str | None


def holder_of(sql: Mapping[str, str], task: str, key: str | None, now: int) -> Steps[Holder | None]:
    """Return the job that has the key now; None where it is free, or no key at all."""
    rows = [] if key is None else (yield Query(sql["key_holder"], (task, key)))
    if key is None or not rows:
        return None
    [(seq, job_id, stored, run_at, finished_at, keep_key, after)] = rows
    state = state_of(stored, run_at, from_micros(now))
    is_kept = state is State.COMPLETED and now < finished_at + keep_key
    return Holder(task, key, seq, job_id, state, after) if is_kept or state not in FINAL else None
