"""An answer that is lost on the wire, after the store has committed, neither loses a job nor doubles one."""

import asyncio
from itertools import pairwise

import pytest
from shopfloor import PROVE, Shop

from standfast import new_job_id

JOBS = 300 if PROVE else 30
STORES = ["sqlite", "postgres", "redis"]
LOST = {
    "claim:error": "claim:error:1,3",
    "claim:silence": "claim:silence:2,3",
    "finish:error": "finish:error:1,4",
    "finish:silence": "finish:silence:2,3",
    "start:error": "start:error:1,3",
    "start:silence": "start:silence:1,1",
}
ALL = [(store, which) for store in STORES for which in LOST]
SOME = [
    ("sqlite", "claim:error"),
    ("sqlite", "finish:silence"),
    ("sqlite", "start:silence"),
    ("postgres", "claim:silence"),
    ("postgres", "finish:error"),
    ("postgres", "start:error"),
    ("redis", "claim:silence"),
    ("redis", "finish:error"),
    ("redis", "start:error"),
]
"""The short form: each store loses the answer to each call, in one way or the other."""


@pytest.fixture(params=STORES)
def store(request, monkeypatch):
    """Give the environment in which the app, here and in its workers, uses one store after the other."""
    environment = {}
    if request.param != "sqlite":
        environment["STANDFAST_URL"] = request.getfixturevalue(f"{request.param}_url")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return environment


@pytest.mark.parametrize(("store", "which"), ALL if PROVE else SOME, indirect=["store"])
def test_lost_reply(tmp_path, store, which):
    """Answers to claims, starts and finishes are dropped after the commit: nothing stuck, nothing run twice."""
    lost = LOST[which]
    with Shop(tmp_path, "lost_reply_app.py") as shop:
        once = [
            handle
            for number in range(JOBS)
            for handle in (shop.tasks.pack.enqueue(order=number), shop.tasks.ship.enqueue(order=number))
        ]
        twice = shop.tasks.knock.enqueue_many({"order": number} for number in range(JOBS // 3))
        expected = [number for number in range(JOBS) for _ in "ab"]

        shop.drain(LOSE=lost, **store)

        drops = (shop.folder / "lost").read_text().splitlines()
        first, last = map(int, lost.rpartition(":")[2].split(","))
        assert len(drops) == last - first + 1
        assert [handle.result(timeout=0) for handle in once] == expected
        assert all(handle.result(timeout=0) is not None for handle in twice)
        for handle in once:
            assert len(shop.ledger(handle)) == 1
            assert handle.job().attempt == 0
        for handle in twice:
            assert len(shop.ledger(handle)) == 2
            assert handle.job().attempt == 1
        assert_every_claim_is_accounted_for(shop, [*once, *twice])
        if lost.startswith("claim"):
            assert any(handle.job().fence > 1 for handle in once)


def assert_every_claim_is_accounted_for(shop, handles):
    """The history knows every fence, none overlaps the next, and each effect belongs to a claim that ended so."""
    for handle in handles:
        history = shop.history(handle)
        assert [attempt.fence for attempt in history] == list(range(1, handle.job().fence + 1))
        ends = {attempt.fence: attempt for attempt in history}
        ran = {line["fence"] for line in shop.ledger(handle)}
        assert {fence for fence, attempt in ends.items() if attempt.how in {"complete", "retry"}} == ran
        given_back = {attempt.how for fence, attempt in ends.items() if fence not in ran}
        assert given_back <= {"release", "snooze"}  # put off: marked, and then not started, as no beat was answered
        for one, next_one in pairwise(history):
            assert next_one.started_at is None or one.ended_at <= next_one.started_at


@pytest.mark.parametrize(
    ("store", "how"),
    [(store, how) for store in STORES for how in (("sync", "async") if PROVE or store == "sqlite" else ("async",))],
    indirect=["store"],
)
def test_lost_reply_of_an_enqueue(tmp_path, store, how):
    """A client that did not hear the answer enqueues again with the same id: there is one job, and it runs once."""
    with Shop(tmp_path, "lost_reply_app.py") as shop:
        job_id = new_job_id()
        for _ in range(3):
            task = shop.tasks.pack.options(job_id=job_id)
            handle = task.enqueue(order=7) if how == "sync" else asyncio.run(task.aenqueue(order=7))
        assert shop.counts() == {"ready": 1}
        shop.drain(**store)
        again = task.enqueue(order=7)
        assert again.result(timeout=0) == handle.result(timeout=0) == 7
        assert len(shop.ledger()) == 1
