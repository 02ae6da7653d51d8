"""However often a job was claimed, its history keeps the first and the last claims, and counts what lay between."""

import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import timedelta

import msgspec
import psycopg
import pytest
from redis import Redis

from conformance import Harness
from standfast.model.crash import DeathKind
from standfast.model.job import HISTORY_BATCH, HISTORY_FIRST, HISTORY_LAST, Failure, Verdict
from standfast.model.states import Move, State

BOUND = HISTORY_FIRST + HISTORY_LAST
OLD = 1500
"""So many claims has a job whose history was never folded."""

KEPT_AT_MOST = BOUND + HISTORY_BATCH + 3
"""So many rows a store may keep of a job that ended in three ways."""

FAILURE = Failure("ValueError", "not today", "Traceback (most recent call last): ...")


def put_off(harness: Harness, worker: str, times: int, group: int = 0) -> None:
    for _ in range(times):
        harness.finish(worker, harness.claim_one(worker, group=group), Move.SNOOZE)


def expect_bounded(harness: Harness, job_id: str, between: Mapping[str, int]) -> None:
    """Expect the first and the last claims one by one, and between them these counts."""
    history, last = harness.history(job_id), harness.job(job_id).fence
    alone = [each.fence for each in history if not each.folded]
    assert alone == [*range(1, HISTORY_FIRST + 1), *range(last - HISTORY_LAST + 1, last + 1)]
    folded = [each for each in history if each.folded]
    assert {each.how: each.folded for each in folded} == between
    assert len(folded) == len(between)
    assert history == tuple(sorted(history, key=lambda each: each.fence))
    assert sum(between.values()) == last - BOUND


def test_what_lies_between_the_first_and_the_last_claims_is_counted(harness: Harness) -> None:
    """After each further claim the bound holds, the present claim included, and the counts add up."""
    worker, job_id = harness.register(), harness.enqueue(max_attempts=1000)
    began = harness.clock.now()
    for fence in range(1, BOUND + 26):
        ref = harness.claim_one(worker)
        harness.start(worker, ref)
        if fence > BOUND:
            retried = fence - BOUND >= 2  # the second of those between failed
            put_off_ = fence - BOUND - retried
            expect_bounded(harness, job_id, {"snooze": put_off_} | ({"retry": 1} if retried else {}))
        harness.clock.advance(1)
        if fence == HISTORY_FIRST + 2:
            harness.finish(worker, ref, Move.RETRY, failure=FAILURE)
        else:
            harness.finish(worker, ref, Move.SNOOZE)
    folded = {each.how: each for each in harness.history(job_id) if each.folded}
    assert folded[Move.RETRY].fence == HISTORY_FIRST + 2
    put_off_ = folded[Move.SNOOZE]
    assert put_off_.fence == HISTORY_FIRST + 25
    assert put_off_.started_at == began + timedelta(seconds=HISTORY_FIRST)
    assert put_off_.ended_at == began + timedelta(seconds=HISTORY_FIRST + 25)
    for each in folded.values():
        assert (each.worker, each.error, each.traceback, each.log) == ("", None, None, None)


def test_a_repeated_end_is_accepted_among_the_last_claims(harness: Harness) -> None:
    """What a worker may still repeat is kept; what was folded is refused, and changes nothing."""
    worker, job_id = harness.register(), harness.enqueue()
    put_off(harness, worker, BOUND + HISTORY_BATCH)
    ref = harness.claim_one(worker)
    before = harness.history(job_id)
    fences = (HISTORY_FIRST + 1, ref.fence - HISTORY_LAST + 1, 1)
    verdicts = [harness.finish(worker, ref._replace(fence=fence), Move.SNOOZE) for fence in fences]
    assert verdicts == [Verdict.STALE, Verdict.ACCEPTED, Verdict.ACCEPTED]
    assert harness.history(job_id) == before


def test_crashes_alone_count_however_long_ago(harness: Harness) -> None:
    """A job that brought down processes of its own before its history was folded is dead after the third."""
    worker, job_id = harness.register(), harness.enqueue(max_attempts=1000)
    put_off(harness, worker, HISTORY_FIRST)
    for group in (0, 1):
        ref = harness.claim_one(worker, group=group)
        harness.bury(worker, DeathKind.CRASHED, frozenset({ref}), "child 4711 was killed by signal 9")
        worker = harness.register()
    put_off(harness, worker, HISTORY_LAST + HISTORY_BATCH, group=1)
    expect_bounded(harness, job_id, {"crashed": 2, "snooze": HISTORY_BATCH})
    ref = harness.claim_one(worker, group=1)
    harness.bury(worker, DeathKind.CRASHED, frozenset({ref}), "child 4712 was killed by signal 9")
    assert harness.job(job_id).state is State.DEAD


class OldHistory:
    """A job with many claims in the store of a release that kept all of them."""

    def __init__(self, harness: Harness, request: pytest.FixtureRequest) -> None:
        self.harness, self.request = harness, request
        self.worker, self.job_id = harness.register(), harness.enqueue()
        put_off(harness, self.worker, 1)
        name = type(harness.backend).__name__.removesuffix("Backend").lower().replace("heir", "postgres")
        self.rows: Callable[[], int] = getattr(self, name)

    @staticmethod
    def how(fence: int) -> str:
        return "retry" if fence % 100 == 0 else "snooze"

    def memory(self) -> int:
        row = self.harness.verbs._jobs[self.job_id]  # type: ignore[attr-defined]
        if row.fence == 1:
            kind, times = type(row.claims[0]), (self.harness.clock.now(),) * 2
            row.claims += [kind(fence, "w", *times, self.how(fence)) for fence in range(2, OLD + 1)]
            row.fence = OLD
        return len(row.claims)

    def sqlite(self) -> int:
        path = self.harness.backend._engine()._files.jobs  # type: ignore[attr-defined]
        with closing(sqlite3.connect(path)) as own, own:
            [(seq, fence)] = own.execute("SELECT seq, fence FROM standfast_job WHERE id = ?", (self.job_id,))
            if fence == 1:
                own.executemany(
                    "INSERT INTO standfast_attempt (job, fence, worker, started_at, ended_at, how, error, ended_by)"
                    " VALUES (?, ?, 'w', 1, 2, ?, 'old', 'finish')",
                    [(seq, each, self.how(each)) for each in range(2, OLD + 1)],
                )
                own.execute("UPDATE standfast_job SET fence = ? WHERE seq = ?", (OLD, seq))
            [(number,)] = own.execute("SELECT count(*) FROM standfast_attempt WHERE job = ?", (seq,))
        return int(number)

    def postgres(self) -> int:
        schema = self.request.getfixturevalue("emptied_schema").name
        with psycopg.connect(self.request.getfixturevalue("shared_postgres"), autocommit=True) as own:
            moved = own.execute(
                f"UPDATE {schema}.waiting SET fence = %s WHERE id = %s AND fence = 1", (OLD, self.job_id)
            )
            if moved.rowcount:
                own.cursor().executemany(
                    f"INSERT INTO {schema}.attempt (id, fence, worker, started_at, ended_at, how, error, ended_by)"
                    " VALUES (%s, %s, 'w', 1, 2, %s, 'old', 'finish')",
                    [(self.job_id, each, self.how(each)) for each in range(2, OLD + 1)],
                )
            counted = own.execute(f"SELECT count(*) FROM {schema}.attempt WHERE id = %s", (self.job_id,))
            [(number,)] = counted.fetchall()
        return int(number)

    def redis(self) -> int:
        with Redis.from_url(self.request.getfixturevalue("shared_redis")) as own:
            life = f"{{standfast}}:life:{self.job_id}"
            if own.hget(life, "f") == b"1":
                own.hset(life, "f", OLD)
                for each in range(2, OLD + 1):
                    entry = ("w", 1, 2, self.how(each), "old", None, None, "finish")
                    own.hset(life, f"h{each}", b"".join(map(msgspec.msgpack.encode, entry)))
            names = own.hkeys(life)
        return sum(bytes(name).startswith(b"h") for name in names)


def test_a_long_history_of_an_older_release_is_shown_and_folded(
    harness: Harness, request: pytest.FixtureRequest
) -> None:
    """It is shown within the bound at once, and stored so after a few more ends."""
    old = OldHistory(harness, request)
    assert old.rows() == OLD
    between = Counter(OldHistory.how(fence) for fence in range(HISTORY_FIRST + 1, OLD - HISTORY_LAST + 1))
    if old.rows.__name__ != "memory":  # which nobody shares with an older release
        expect_bounded(harness, old.job_id, between)
    more = 4 * HISTORY_BATCH
    put_off(harness, old.worker, more)
    later = range(OLD - HISTORY_LAST + 1, OLD - HISTORY_LAST + 1 + more)
    expect_bounded(harness, old.job_id, between + Counter(map(OldHistory.how, later)))
    assert old.rows() <= KEPT_AT_MOST
