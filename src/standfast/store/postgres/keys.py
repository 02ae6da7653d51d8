"""Who has a key: one row says which job was last accepted with it, and where that job is whether it still has it.

That row is also the lock. Who gives a key to a job, or takes it from one, locks the key first and looks at its
holder after that, in a later statement, which sees what was committed meanwhile. Workers do not lock keys: they
claim and finish as ever, so that every act upon a holder may find it gone, and then has to look again.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from standfast.errors import ConfigurationError
from standfast.store.postgres.whereabouts import Whereabouts, to_whereabouts
from standfast.store.verb import Command, Query, Steps, Together, Try

Key: TypeAlias = tuple[str, str]
"""A task and a key of it."""


def lock_keys(sql: Mapping[str, str], keys: Iterable[Key], now: int | None) -> Steps[int]:
    """Lock keys until the transaction ends; return the time at which the last of them was had.

    Raises ConfigurationError in a transaction that would not see what others did while this one waited.
    """
    tasks, names = zip(*dict.fromkeys(keys), strict=True)
    rows: list[tuple[int]] = yield Query(sql["lock_keys"], (now, tasks, names))
    if not rows:
        raise ConfigurationError(
            "a job with a key needs a READ COMMITTED transaction, because one that is REPEATABLE READ or"
            " SERIALIZABLE does not see who took the key meanwhile: set the isolation level of this transaction to"
            " READ COMMITTED, or enqueue the job without tx="
        )
    return max(moment for (moment,) in rows)


def set_apart(sql: Mapping[str, str], keys: Sequence[Key], others: Sequence[str] = ()) -> Steps[None]:
    """Let the jobs that have these keys, and the `others`, be fresh no longer, before they are locked or withdrawn.

    If the transaction that does so comes to nothing, they are where every claim finds them at once. A fresh job may
    be behind the marks of claims by then, and would be found only by one that walks everything (marks.py).
    """
    if keys or others:
        tasks, names = [task for task, _ in keys], [name for _, name in keys]
        yield Try(Query(sql["set_apart"], (tasks, names, others)), apart=True)


def lock_holders(
    sql: Mapping[str, str], keys: Sequence[Key], own: Sequence[str], others: Sequence[str] = ()
) -> Steps[None]:
    """Lock the jobs that have these keys, which are locked, and the `others`, and the claims in their way.

    But not the `own` new jobs of the caller.

    Whoever ends claims locks them in the order of their ids. Who takes several keys would lock them one after the
    other, in an order of its own, and the two might wait for each other: so it locks all that it will need before.
    What came back while this waited for a claim is locked after that. If a worker is quicker still, and two then do
    wait for each other, the server lets one of them try again.
    """
    tasks, names = [task for task, _ in keys], [name for _, name in keys]
    claimable = Command(sql["lock_claimable"], (tasks, names, own, others))
    yield Together([claimable, Command(sql["lock_claims"], (tasks, names, others)), claimable])


def holders_of(sql: Mapping[str, str], keys: Iterable[Key], now: int | None) -> Steps[dict[Key, Whereabouts]]:
    """Return the jobs that have these keys now; those that are free are left out."""
    tasks, names = zip(*keys, strict=True)
    rows = yield Query(sql["key_holders"], (now, tasks, names))
    found = map(to_whereabouts, rows)
    return {(job.task, job.key): job for job in found if job.key is not None and job.has_key}


def holder_of(sql: Mapping[str, str], task: str, key: str, now: int | None) -> Steps[Whereabouts | None]:
    """Return the job that has the key now; None where it is free."""
    holders = yield from holders_of(sql, [(task, key)], now)
    return holders.get((task, key))


def give_key(sql: Mapping[str, str], task: str, key: str, job_id: str) -> Steps[None]:
    """Note the job that has a key from now on. The key must be locked."""
    yield Command(sql["give_keys"], ([task], [key], [job_id]))


def mark_replaced(sql: Mapping[str, str], job_id: str, replaced: bool) -> Steps[bool]:
    """Note on a claimed job that another waits for its end, or no longer does; False if it is claimed no more."""
    changed: int = yield Command(sql["mark_replaced"], (job_id, replaced))
    return changed > 0
