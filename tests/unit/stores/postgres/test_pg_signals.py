"""Signals, saves and the ends of claims at the same moment: no wake-up is lost, and nobody waits without need."""

from contextlib import closing
from datetime import timedelta

import pytest
from pg_underway import LONG, Crossing
from test_clients import overtaken

from conformance.harness import new_save
from standfast.errors import StoreError
from standfast.model.crash import Death, DeathKind
from standfast.model.job import Cancellation, Ending, JobAction, Progress, Verdict
from standfast.model.memos import FOR_EVER, SLEEPING, signal_memo, signal_reason
from standfast.model.states import ENDINGS, Move, State
from standfast.stores.contract import cancel_job, change_job
from standfast.stores.verb import Last, Together

HOUR = timedelta(hours=1)
GO = signal_reason("go")


@pytest.fixture(params=["emptied_url", "emptied_pgbouncer_url"])
def crossing(request):
    with closing(Crossing(request.getfixturevalue(request.param))) as crossing:
        yield crossing


def waits(placed, move=Move.SNOOZE, reason=GO):
    """Return how a job gives its slot back until a signal comes."""
    return Ending(placed.ref, move, delay=FOR_EVER, reason=reason)


def place_of(crossing, job_id):
    job = crossing.job(job_id)
    return job.state, job.reason


def send(crossing, job_id, token="t1"):
    return crossing.verbs.signal(job_id, "go", token, b"1")


# -- a signal and the end of the claim -----------------------------------------------------------------------------


def test_a_wait_that_begins_while_a_signal_is_under_way(crossing):
    """The end of the claim waits for the signal, and then sees it."""
    placed = crossing.place(State.RUNNING)
    with crossing.underway(send(crossing, placed.job_id)) as commit:
        ended = crossing.later(crossing.verbs.finish(placed.worker, [waits(placed)]))
        crossing.wait_until_it_waits()
        assert commit()
    assert ended.result(LONG) == (Verdict.ACCEPTED,)
    assert place_of(crossing, placed.job_id) == (State.READY, None)


def test_a_signal_that_comes_while_a_wait_begins(crossing):
    """The signal waits for the end of the claim, looks again, and wakes the job."""
    placed = crossing.place(State.RUNNING)
    with crossing.underway(crossing.verbs.finish(placed.worker, [waits(placed)])) as commit:
        sent = crossing.later(send(crossing, placed.job_id))
        crossing.wait_until_it_waits()
        assert commit() == (Verdict.ACCEPTED,)
    assert sent.result(LONG)
    assert place_of(crossing, placed.job_id) == (State.READY, None)


def test_a_signal_that_comes_while_the_job_completes_is_too_late(crossing):
    """It is told so, and nothing of it is written."""
    placed = crossing.place(State.RUNNING)
    with crossing.underway(crossing.verbs.finish(placed.worker, [Ending(placed.ref, Move.COMPLETE)])) as commit:
        sent = crossing.later(send(crossing, placed.job_id))
        crossing.wait_until_it_waits()
        commit()
    assert sent.result(LONG) is False
    assert crossing.memos(placed.job_id) == {}


def test_a_signal_that_is_rolled_back_wakes_nobody(crossing):
    """The user who sent it thought better of it: the job waits on."""
    placed = crossing.place(State.RUNNING)
    with crossing.user_connection() as user:
        assert crossing.backend.run_in(send(crossing, placed.job_id), user)
        ended = crossing.later(crossing.verbs.finish(placed.worker, [waits(placed)]))
        crossing.wait_until_it_waits()
        user.rollback()
    assert ended.result(LONG) == (Verdict.ACCEPTED,)
    assert place_of(crossing, placed.job_id) == (State.SCHEDULED, GO)
    assert crossing.memos(placed.job_id) == {}


def test_the_worker_goes_on_while_a_signal_is_under_way(crossing):
    """A user's transaction may be long: marks, reports, saves and wishes to cancel do not wait for it."""
    placed = crossing.place(State.HELD)
    with crossing.underway(send(crossing, placed.job_id)) as commit:
        assert crossing.start(placed.worker, placed.ref) is Verdict.ACCEPTED
        report = [(placed.ref, Progress(1, 2, "half of it"))]
        assert crossing.run(crossing.verbs.progress(placed.worker, report)) == (Verdict.ACCEPTED,)
        assert crossing.save(placed.worker, placed.ref, 1, {"cursor": b"1"}) is Verdict.ACCEPTED
        assert crossing.run(send(crossing, placed.job_id, "t2"))
        assert crossing.run(cancel_job(crossing.verbs, placed.job_id)) is Cancellation.REQUESTED
        assert commit()
    assert sorted(crossing.memos(placed.job_id)) == ["cursor", signal_memo("go", "t1"), signal_memo("go", "t2")]


# -- a signal and the next claim -----------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [1, 3])
def test_a_job_that_was_run_between_the_look_and_the_act(crossing, times):
    """It was claimed and waits for the signal since: that is found, however often it moves."""
    worker, job_id = crossing.register(), crossing.enqueue()

    def run_it():
        ref = crossing.claim_one(worker)
        crossing.run(crossing.verbs.finish(worker, [Ending(ref, Move.SNOOZE, delay=FOR_EVER, reason=GO)]))
        if times > 1:
            crossing.run(change_job(crossing.verbs, JobAction.RETRY, job_id))

    assert crossing.run(overtaken(send(crossing, job_id), *[run_it] * times))
    assert crossing.job(job_id).state is State.READY
    assert crossing.memos(job_id) == {signal_memo("go", "t1"): b"1"}


def test_a_fresh_job_is_not_claimed_while_a_signal_to_it_is_under_way(crossing):
    """It could come to wait for the very signal before that is committed. It keeps its place in the line."""
    worker = crossing.register()
    first, second = crossing.enqueue(), crossing.enqueue()
    with crossing.underway(send(crossing, first)) as commit:
        assert crossing.claim(worker, limit=1)[0].job_id == second
        assert commit()
    third = crossing.enqueue()
    assert [claim.job_id for claim in crossing.claim(worker)] == [first, third]


def test_a_fresh_job_whose_signal_was_rolled_back_is_claimed(crossing):
    """It is as it was; who passed it over finds it at the next sweep."""
    worker, job_id = crossing.register(), crossing.enqueue()
    with crossing.user_connection() as user:
        assert crossing.backend.run_in(send(crossing, job_id), user)
        user.rollback()
    assert crossing.memos(job_id) == {}
    assert crossing.claim_one(worker).job_id == job_id


def test_a_job_that_sleeps_is_not_claimed_while_a_signal_to_it_is_under_way(crossing):
    """Its time comes meanwhile: it is passed over until the signal is committed."""
    placed = crossing.suspend(None, HOUR)
    crossing.clock.advance(HOUR.total_seconds())
    with crossing.underway(send(crossing, placed.job_id)) as commit:
        assert crossing.claim(placed.worker) == ()
        assert commit()
    assert crossing.claim_one(placed.worker).job_id == placed.job_id


def test_two_signals_at_once(crossing):
    """Both are kept; if the first is rolled back, the second wakes the job all the same."""
    placed = crossing.suspend("go", FOR_EVER)
    with crossing.user_connection() as user:
        assert crossing.backend.run_in(send(crossing, placed.job_id), user)
        second = crossing.later(send(crossing, placed.job_id, "t2"))
        crossing.wait_until_it_waits()
        user.rollback()
    assert second.result(LONG)
    assert place_of(crossing, placed.job_id) == (State.READY, None)
    assert crossing.memos(placed.job_id) == {signal_memo("go", "t2"): b"1"}


@pytest.mark.parametrize("state", [State.READY, State.RUNNING])
def test_a_transaction_that_sees_the_past_is_refused(crossing, state):
    """A REPEATABLE READ transaction does not know that the job waits by now: it fails, and no wake-up is lost."""
    placed = crossing.place(state)
    with crossing.user_connection() as user:
        user.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        user.execute("SELECT count(*) FROM pg_class")
        worker = placed.worker or crossing.register()
        ref = placed.ref if state is State.RUNNING else crossing.claim_one(worker)
        crossing.finish(worker, ref, Move.SNOOZE, delay=FOR_EVER, reason=GO)
        with pytest.raises(StoreError):
            crossing.backend.run_in(send(crossing, placed.job_id), user)
    assert place_of(crossing, placed.job_id) == (State.SCHEDULED, GO)


# -- saves ---------------------------------------------------------------------------------------------------------


def test_a_save_while_its_worker_is_being_buried(crossing):
    """It waits, and finds that the claim is another's."""
    placed = crossing.place(State.RUNNING)
    with crossing.underway(crossing.verbs.bury(placed.worker, Death(DeathKind.STOPPED))) as commit:
        saved = crossing.later(crossing.verbs.save(placed.worker, [new_save(placed.ref, 1, {"cursor": b"1"})]))
        crossing.wait_until_it_waits()
        commit()
    assert saved.result(LONG) == (Verdict.STALE,)
    assert crossing.memos(placed.job_id) == {}


def test_a_save_in_a_long_transaction_of_the_user_s(crossing):
    """The claim goes on, and cannot be taken away before that ends: the next claim sees what was saved."""
    placed = crossing.place(State.RUNNING)
    with crossing.user_connection() as user:
        saves = [new_save(placed.ref, 1, {"step:charge": b"1"})]
        assert crossing.backend.run_in(crossing.verbs.save(placed.worker, saves), user) == (Verdict.ACCEPTED,)
        assert crossing.save(placed.worker, placed.ref, 2, {"cursor": b"2"}) is Verdict.ACCEPTED
        report = [(placed.ref, Progress(1, 2))]
        assert crossing.run(crossing.verbs.progress(placed.worker, report)) == (Verdict.ACCEPTED,)
        buried = crossing.later(crossing.verbs.bury(placed.worker, Death(DeathKind.STOPPED)))
        crossing.wait_until_it_waits()
        user.commit()
    assert buried.result(LONG) == (placed.ref,)
    assert crossing.memos(placed.job_id) == {"step:charge": b"1", "cursor": b"2"}


def test_more_than_one_statement_takes(crossing, monkeypatch):
    """Large memos of many jobs go in pieces, and each claim has its own verdict."""
    monkeypatch.setattr("standfast.stores.postgres.records.BITE", 10)
    placed = [crossing.place(State.RUNNING, queue=str(number)) for number in range(3)]
    crossing.finish(placed[1].worker, placed[1].ref, Move.RELEASE)
    saves = [new_save(each.ref, 1, {"cursor": b"1" * 8, "step:a": b""}) for each in placed]
    verdicts = [crossing.run(crossing.verbs.save(each.worker, saves)) for each in placed]
    assert [verdict.index(Verdict.ACCEPTED) for verdict in (verdicts[0], verdicts[2])] == [0, 2]
    assert [len(crossing.memos(each.job_id)) for each in placed] == [2, 0, 2]


# -- what others pay for it ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("crossing", ["emptied_url"], indirect=True)
@pytest.mark.parametrize("move", sorted(ENDINGS))
@pytest.mark.parametrize("reason", [None, SLEEPING, GO])
def test_only_who_waits_for_a_signal_looks_for_one(crossing, move, reason):
    """Every other ending is as many statements as ever, and none of them knows of memos."""
    placed = crossing.place(State.RUNNING)
    seen = []

    def noting(steps):
        statement = next(steps)
        while True:
            seen.append(statement)
            try:
                statement = steps.send((yield statement))
            except StopIteration as stop:
                return stop.value

    verb = crossing.verbs.finish(placed.worker, [waits(placed, move, reason)])
    verb.steps = noting(verb.steps)
    crossing.run(verb)
    looks = [sql for statement in seen for sql in _sql_of(statement) if ".memo" in sql]
    assert bool(looks) == (move in {Move.SNOOZE, Move.RETRY} and reason == GO)


def _sql_of(statement):
    inner = statement.statement if isinstance(statement, Last) else statement
    return [each.sql for each in (inner.statements if isinstance(inner, Together) else [inner])]
