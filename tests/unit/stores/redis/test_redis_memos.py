"""Memos and signals on Redis: what the conformance suite, which sees answers only, cannot see of them."""

from collections.abc import Callable, Iterable
from datetime import timedelta

import pytest
import redis
from redis_scene import Open, Servers, calls_of, everything, fill, names_of

from conformance import Harness
from servers import RedisServer
from standfast.errors import StoreFullError, ValueNotStoredError
from standfast.model.job import ClaimRef, JobAction, Progress, Verdict
from standfast.model.memos import FOR_EVER, SLEEPING, Memo, Save, signal_memo, signal_reason
from standfast.model.states import Move, State
from standfast.stores.contract import cancel_job, change_job
from standfast.stores.redis.rows import to_progress, write_progress
from standfast.testing import FakeClock

EVERY_BYTE = bytes(range(256))
WAITING = signal_reason("approved")


@pytest.fixture
def private(redis_server: Servers) -> RedisServer:
    return redis_server()


@pytest.fixture
def alone(private: RedisServer, open_store: Open) -> Harness:
    """An empty store on a server of its own."""
    clock = FakeClock()
    return Harness(open_store(private.url(), clock=clock), clock)


def _claimed(store: Harness, worker: str) -> ClaimRef:
    store.enqueue()
    return store.claim_one(worker)


def _save(store: Harness, worker: str, ref: ClaimRef, number: int, *memos: Memo) -> Verdict:
    (verdict,) = store.run(store.verbs.save(worker, [Save(ref, number, memos)]))
    return verdict


def _memos(store: Harness, job_id: str) -> dict[str, bytes]:
    return {memo.name: memo.body for memo in store.run(store.verbs.memos(job_id))}


# -- values --------------------------------------------------------------------------------------------------------


def test_bodies_and_names_are_any(store: Harness) -> None:
    """What goes in comes out, whatever the bytes, also behind the bytes of a save that is refused."""
    worker = store.register()
    first, second = _claimed(store, worker), _claimed(store, worker)
    said = (Memo("cursor", EVERY_BYTE), Memo("step:Größe: 1", b""), Memo("", EVERY_BYTE[::-1]))
    stale = Save(first._replace(fence=2), 1, (Memo("cursor", b"stale"), Memo("stale", EVERY_BYTE)))
    saves = [stale, Save(first, 1, said), Save(second, 1, ()), Save(second, 2, said[:1])]
    verdicts = store.run(store.verbs.save(worker, saves))
    assert verdicts == (Verdict.STALE, Verdict.ACCEPTED, Verdict.ACCEPTED, Verdict.ACCEPTED)
    assert _memos(store, first.job_id) == {memo.name: memo.body for memo in said}
    assert _memos(store, second.job_id) == {"cursor": EVERY_BYTE}
    with pytest.raises(ValueNotStoredError):
        _save(store, worker, first, 2, Memo("\ud800", b""))


@pytest.mark.parametrize(("earlier", "later"), [((1, 9), (1, 10)), ((9, 1), (10, 1)), ((1, 10), (2, 9))])
def test_stamps_are_numbers(store: Harness, earlier: tuple[int, int], later: tuple[int, int]) -> None:
    """The tenth save, or claim, is later than the ninth, though its digits are not; and the claim counts first."""
    worker = store.register()
    ref = _claimed(store, worker)
    for fence, number in (earlier, later):
        ref = _reclaimed(store, worker, ref, fence)
        assert _save(store, worker, ref, number, Memo("cursor", b"%d.%d" % (fence, number))) is Verdict.ACCEPTED
    assert _memos(store, ref.job_id) == {"cursor": b"%d.%d" % later}


def _reclaimed(store: Harness, worker: str, ref: ClaimRef, fence: int) -> ClaimRef:
    while ref.fence < fence:
        store.finish(worker, ref, Move.RELEASE)
        ref = store.claim_one(worker)
    return ref


def test_a_save_that_is_stale_or_late_changes_nothing(store: Harness, server: redis.Redis) -> None:
    """Not a byte, and no key is made."""
    worker, other = store.register(), store.register()
    ref = _claimed(store, worker)
    _save(store, worker, ref, 2, Memo("cursor", b"two"))
    before = everything(server)
    assert _save(store, worker, ref, 1, Memo("cursor", b"one")) is Verdict.ACCEPTED
    assert _save(store, worker, ref, 2, Memo("cursor", b"again")) is Verdict.ACCEPTED
    assert _save(store, other, ref, 3, Memo("new", b"")) is Verdict.STALE
    assert _save(store, worker, ref._replace(fence=2), 3, Memo("new", b"")) is Verdict.STALE
    assert everything(server) == before


def test_a_note_of_progress() -> None:
    """It comes back; and what is written without one is what an older release writes, and can read."""
    assert to_progress(write_progress(Progress(1, 2, "Größe"))) == Progress(1, 2, "Größe")
    assert write_progress(Progress(1.5, None)) == b"\x92\xcb\x3f\xf8\0\0\0\0\0\0\xc0"
    assert to_progress(b"\x92\x01\x02") == Progress(1, 2)


# -- signals -------------------------------------------------------------------------------------------------------


def test_names_of_signals_do_not_run_into_each_other(store: Harness) -> None:
    """A signal wakes who waits for its name, and nobody whose name begins or ends like it."""
    worker = store.register()
    ref = _claimed(store, worker)
    for name in ("approve", "approved2", "not:approved"):
        assert store.run(store.verbs.signal(ref.job_id, name, "1", b"x"))
    _save(store, worker, ref, 1, Memo("wait:signal:approved:1", b"x"), Memo("sleep:1", b"x"))
    assert store.finish(worker, ref, Move.SNOOZE, reason=WAITING, delay=FOR_EVER) is Verdict.ACCEPTED
    assert store.job(ref.job_id).state is State.SCHEDULED
    store.run(change_job(store.verbs, JobAction.RETRY, ref.job_id))
    ref = store.claim_one(worker)
    store.finish(worker, ref, Move.SNOOZE, reason=SLEEPING, delay=timedelta(hours=1))
    assert store.job(ref.job_id).state is State.SCHEDULED


def test_looking_for_a_signal_reads_no_bodies(private: RedisServer, alone: Harness) -> None:
    """Names and lengths are enough, so that a job with large memos keeps nobody waiting."""
    worker = alone.register()
    ref = _claimed(alone, worker)
    alone.run(alone.verbs.signal(ref.job_id, "approved", "1", b"x"))
    ran = calls_of(private, lambda: alone.finish(worker, ref, Move.SNOOZE, reason=WAITING, delay=FOR_EVER))
    assert (ran["hkeys"], ran["hstrlen"]) == (1, 1)
    assert "hgetall" not in ran
    assert alone.job(ref.job_id).state is State.READY


def test_a_suspended_job_is_among_no_others_that_wait_again(store: Harness, server: redis.Redis) -> None:
    """A drain counts one list of jobs and looks at none: who is suspended is not in it, by whatever way it goes."""
    worker = store.register()
    leaving: Iterable[Callable[[str], object]] = (
        lambda job_id: store.run(store.verbs.signal(job_id, "approved", "1", b"x")),
        lambda job_id: store.run(change_job(store.verbs, JobAction.RETRY, job_id)),
        lambda job_id: store.run(cancel_job(store.verbs, job_id)),
        lambda _: store.clock.advance(61),
    )
    for leave in leaving:
        ref = _claimed(store, worker)
        store.finish(worker, ref, Move.SNOOZE, reason=WAITING, delay=timedelta(seconds=60))
        assert store.run(store.verbs.unsettled(None)) == 0
        leave(ref.job_id)
        ready = [claim.ref for claim in store.claim(worker)]
        assert store.run(store.verbs.unsettled(None)) == len(ready)
        for each in ready:
            store.finish(worker, each, Move.COMPLETE)
        assert not {name for name in names_of(server) if ":again:" in name or ":lane:" in name}


# -- cost and room -------------------------------------------------------------------------------------------------


def test_jobs_without_memos_do_not_pay_for_them(private: RedisServer, alone: Harness) -> None:
    """To complete, snooze and forget them asks for no memo, but that one more key may be deleted at the end."""
    worker = alone.register()
    first, completion, snooze = (_claimed(alone, worker) for _ in range(3))
    alone.finish(worker, first, Move.COMPLETE)  # from here on the server knows the script
    ran = calls_of(private, lambda: alone.finish(worker, completion, Move.COMPLETE))
    ended = {"hmget": 1, "hdel": 1, "srem": 1, "mset": 1, "zadd": 1}
    assert ran == {"evalsha": 1, **ended, "hincrby": 2, "incr": 1, "zrange": 1}
    ran = calls_of(private, lambda: alone.finish(worker, snooze, Move.SNOOZE, reason=SLEEPING))
    assert "hkeys" not in ran
    alone.clock.advance(1)
    ran = calls_of(private, lambda: alone.run(alone.verbs.forget_jobs(timedelta(), 100)))
    assert (ran["unlink"], ran.get("hgetall"), ran.get("hkeys")) == (2, None, None)


def test_memos_are_forgotten_with_their_job(store: Harness, server: redis.Redis) -> None:
    """Not before, whatever becomes of the job; and then nothing is left of them."""
    worker = store.register()
    plain, dying = _claimed(store, worker), _claimed(store, worker)
    for ref in (plain, dying):
        _save(store, worker, ref, 1, Memo("cursor", b"1"))
        store.run(store.verbs.signal(ref.job_id, "approved", "1", b"x"))
    store.finish(worker, plain, Move.COMPLETE)
    store.finish(worker, dying, Move.DIE)
    assert not store.run(store.verbs.signal(plain.job_id, "approved", "2", b"x"))
    assert not store.run(store.verbs.signal(dying.job_id, "approved", "2", b"x"))
    kept = {"cursor": b"1", signal_memo("approved", "1"): b"x"}
    assert _memos(store, plain.job_id) == _memos(store, dying.job_id) == kept
    store.run(change_job(store.verbs, JobAction.DISCARD, dying.job_id))
    store.clock.advance(1)
    assert store.run(store.verbs.forget_jobs(timedelta(), 100)) == 2
    assert not {name for name in names_of(server) if ":memo:" in name}
    assert _memos(store, plain.job_id) == {}


def test_a_full_server_takes_saves_and_no_signals(private: RedisServer, alone: Harness) -> None:
    """What a job writes down brings it to its end; who sends a signal hears that it was not stored."""
    worker = alone.register()
    ref, other = _claimed(alone, worker), _claimed(alone, worker)
    alone.finish(worker, other, Move.SNOOZE, reason=WAITING, delay=FOR_EVER)
    fill(private)
    assert _save(alone, worker, ref, 1, Memo("cursor", b"1"), Memo("step:a", b"2")) is Verdict.ACCEPTED
    assert _save(alone, worker, ref, 2, Memo("cursor", b"3")) is Verdict.ACCEPTED
    assert _memos(alone, ref.job_id) == {"cursor": b"3", "step:a": b"2"}
    with private.connect() as own:
        before = everything(own)
        with pytest.raises(StoreFullError):
            alone.run(alone.verbs.signal(other.job_id, "approved", "1", b"x"))
        assert everything(own) == before
    assert alone.finish(worker, ref, Move.SNOOZE, reason=WAITING) is Verdict.ACCEPTED
    fill(private, is_full=False)
    assert alone.run(alone.verbs.signal(other.job_id, "approved", "1", b"x"))
    assert alone.job(other.job_id).state is State.READY
