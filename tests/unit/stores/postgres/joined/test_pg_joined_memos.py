"""Memos and signals inside the user's own transaction: they are there if and only if it commits."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from pg_joining import pack, sql

from standfast.model.job import ClaimRef, Ending, Verdict
from standfast.model.memos import FOR_EVER, LAST_NUMBER, Memo, Save, signal_memo, signal_reason
from standfast.model.states import Move
from standfast.stores.values import ClaimRequest, WorkerInfo

BODY = bytes(range(256))


@pytest.fixture
def claimed(shop):
    """Give a job that a worker has."""
    shop.tasks["pack"].enqueue(order=1)
    shop.call(shop.verbs.register(WorkerInfo("w", "s", "h", 1, timedelta(seconds=15))))
    [claim] = shop.call(shop.verbs.claim(ClaimRequest("w", 1, 1))).jobs
    return claim


def save(shop, own, ref, number=1):
    memos = (Memo("step:it's ü", BODY), Memo("cursor", b""))
    return own.run_verb(shop.backend, shop.verbs.save("w", [Save(ref, number, memos)]))


def memos(shop, job_id):
    return {memo.name: memo.body for memo in shop.call(shop.verbs.memos(job_id))}


def test_a_save_is_the_user_s_to_commit(shop, own, claimed, orders, table):
    """Rolled back, neither the rows nor the memos are there; committed, both."""
    for number, ending in enumerate(("rollback", "commit"), 1):
        own.begin()
        own.do(f"INSERT INTO {table} DEFAULT VALUES")
        assert save(shop, own, claimed.ref, number) == (Verdict.ACCEPTED,)
        assert memos(shop, claimed.job_id) == {}
        getattr(own, ending)()
    assert orders() == 1
    assert memos(shop, claimed.job_id) == {"step:it's ü": BODY, "cursor": b""}


def test_a_stale_save_leaves_the_transaction_usable(shop, own, claimed, orders, table):
    """The user is told, and decides."""
    own.begin()
    own.do(f"INSERT INTO {table} DEFAULT VALUES")
    assert save(shop, own, ClaimRef(claimed.job_id, claimed.fence + 1)) == (Verdict.STALE,)
    own.commit()
    assert (orders(), memos(shop, claimed.job_id)) == (1, {})


def test_a_signal_is_the_user_s_to_commit(shop, own, claimed):
    """A job that waits for it goes on when it is committed, and not before."""
    ending = Ending(claimed.ref, Move.SNOOZE, delay=FOR_EVER, reason=signal_reason("paid"))
    shop.call(shop.verbs.finish("w", [ending]))
    handle = shop.handle(claimed.job_id)
    for act in ("rollback", "commit"):
        own.begin()
        assert own.run_verb(shop.backend, shop.verbs.signal(claimed.job_id, "paid", "t1", BODY))
        assert handle.status() == "scheduled"
        getattr(own, act)()
    assert handle.status() == "ready"
    assert memos(shop, claimed.job_id) == {signal_memo("paid", "t1"): BODY}


def test_a_job_and_its_signal_in_one_transaction(shop, own):
    """Who enqueues a job may send it a signal at once."""
    own.begin()
    handle = pack(shop, own)
    assert own.run_verb(shop.backend, shop.verbs.signal(handle.id, "paid", "t1", BODY))
    own.commit()
    assert handle.status() == "ready"
    assert memos(shop, handle.id) == {signal_memo("paid", "t1"): BODY}


def test_a_save_beside_the_last_one_does_not_hold_up_the_end(shop, plain, claimed, schema, shared_postgres):
    """A worker may save what the transaction that completes the job writes too: the end waits for no lock of it."""
    memo = Memo("cursor", BODY)
    waiting = f"SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND position('{schema}' IN query) > 0"
    plain.begin()
    plain.do("SET LOCAL lock_timeout = '10ms'")  # a wait would be for ever: the save waits for this transaction
    last = Save(claimed.ref, LAST_NUMBER, (memo,))
    assert plain.run_verb(shop.backend, shop.verbs.save("w", [last])) == (Verdict.ACCEPTED,)
    with ThreadPoolExecutor(1) as beside:
        late = beside.submit(shop.call, shop.verbs.save("w", [Save(claimed.ref, 1, (memo,))]))
        while not sql(shared_postgres, waiting):
            assert not late.done()
        assert plain.run_verb(shop.backend, shop.verbs.finish("w", [Ending(claimed.ref, Move.COMPLETE)])) == (
            Verdict.ACCEPTED,
        )
        plain.commit()
        assert late.result(10) == (Verdict.STALE,)
    assert memos(shop, claimed.job_id) == {"cursor": BODY}
