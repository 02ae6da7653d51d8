"""Verbs that meet on real connections: a worker's end, its beats and claims; a claim's end and who else wants it.

Each test lets one verb do all but commit, starts a second that has to wait for it, and looks at what both came to.
"""

from datetime import timedelta

import pytest
from pg_underway import LONG

from conformance.harness import LEASE
from standfast.errors import WorkerBuriedError
from standfast.model.crash import Death, DeathKind
from standfast.model.job import Cancellation, ClaimRef, Ending, OnConflict, Progress, Verdict
from standfast.model.states import Move, Reason, State
from standfast.stores.contract import cancel_job, count_states
from standfast.stores.postgres import supervise
from standfast.stores.values import BURIED_KEPT, ClaimRequest, WorkerBeat, WorkerInfo
from standfast.testing import FakeClock

STOPPED = Death(DeathKind.STOPPED)
ACCEPTED, STALE = Verdict.ACCEPTED, Verdict.STALE


def _info(worker):
    return WorkerInfo(worker, "supervisor-1", "host-1", 1, timedelta(seconds=LEASE))


def _claimed(crossing, how_many, **fields):
    """Register a worker and let it claim so many new jobs; return it with its claims in the order of their ids."""
    worker = crossing.register()
    for _ in range(how_many):
        crossing.enqueue(**fields)
    return worker, sorted(claim.ref for claim in crossing.claim(worker))


# -- claims, beats and burials -----------------------------------------------------------------------------------


def test_a_burial_gives_back_a_claim_that_was_under_way(crossing):
    """It waits for the claim's commit, and then sees what was claimed."""
    worker, job_id = crossing.register(), crossing.enqueue()
    with crossing.underway(crossing.verbs.claim(ClaimRequest(worker, 1, 10))) as commit_claim:
        burial = crossing.later(crossing.verbs.bury(worker, STOPPED))
        crossing.wait_until_it_waits()
        (claim,) = commit_claim().jobs
    assert burial.result(LONG) == (claim.ref,) == (ClaimRef(job_id, 1),)
    assert crossing.job(job_id).state is State.READY


def test_a_claim_that_meets_a_burial_is_refused(crossing):
    """It waits for the burial's commit, and takes nothing."""
    worker, job_id = crossing.register(), crossing.enqueue()
    with crossing.underway(crossing.verbs.bury(worker, STOPPED)) as commit_burial:
        claim = crossing.later(crossing.verbs.claim(ClaimRequest(worker, 1, 10)))
        crossing.wait_until_it_waits()
        assert commit_burial() == ()
        with pytest.raises(WorkerBuriedError):
            claim.result(LONG)
    assert (crossing.job(job_id).state, crossing.job(job_id).fence) == (State.READY, 0)


def test_a_beat_waits_for_no_claim(crossing):
    """A lease is renewed, and a worker condemned, while a claim of that very worker is under way."""
    worker = crossing.register()
    crossing.enqueue()
    with crossing.underway(crossing.verbs.claim(ClaimRequest(worker, 1, 10))):
        crossing.clock.advance(LEASE - 1)
        assert crossing.later(crossing.verbs.beat([WorkerBeat(worker)])).result(LONG).accepted == {worker}
        crossing.clock.advance(LEASE + 1)
        assert crossing.later(crossing.verbs.condemn(frozenset({worker}))).result(LONG) == {worker}


def test_a_beat_under_way_saves_its_worker(crossing):
    """Who condemns looks at the age again once the beat is committed."""
    worker = crossing.register()
    crossing.clock.advance(LEASE + 1)
    with crossing.underway(crossing.verbs.beat([WorkerBeat(worker)])) as commit_beat:
        condemned = crossing.later(crossing.verbs.condemn(frozenset({worker})))
        crossing.wait_until_it_waits()
        assert commit_beat().accepted == {worker}
    assert condemned.result(LONG) == frozenset()
    assert crossing.bury(worker, DeathKind.STOPPED) == ()


def test_a_beat_that_meets_the_mark_is_refused(crossing):
    """Who beats looks at the mark again once it is committed."""
    worker = crossing.register()
    crossing.clock.advance(LEASE + 1)
    with crossing.underway(crossing.verbs.condemn(frozenset({worker}))) as commit_mark:
        beat = crossing.later(crossing.verbs.beat([WorkerBeat(worker)]))
        crossing.wait_until_it_waits()
        assert commit_mark() == {worker}
    assert beat.result(LONG).accepted == frozenset()


def test_a_vanished_worker_is_buried_only_with_a_mark_that_is_committed(crossing):
    """A burial that meets a beat looks again, and leaves the living alone."""
    worker = crossing.register()
    crossing.clock.advance(LEASE + 1)
    with crossing.underway(crossing.verbs.beat([WorkerBeat(worker)])) as commit_beat:
        assert crossing.run(crossing.verbs.bury(worker, Death(DeathKind.VANISHED))) == ()
        commit_beat()
    assert crossing.beat(worker).accepted == {worker}


def test_a_beat_that_meets_a_burial_is_refused(crossing):
    """It waits, and finds no worker."""
    worker = crossing.register()
    with crossing.underway(crossing.verbs.bury(worker, STOPPED)) as commit_burial:
        beat = crossing.later(crossing.verbs.beat([WorkerBeat(worker)]))
        crossing.wait_until_it_waits()
        commit_burial()
    assert beat.result(LONG).accepted == frozenset()


def test_a_registration_that_meets_the_burial_brings_nobody_back(crossing):
    """A second copy of it, long under way, waits for the burial and leaves no worker behind."""
    worker = crossing.register()
    with crossing.underway(crossing.verbs.bury(worker, STOPPED)) as commit_burial:
        again = crossing.later(crossing.verbs.register(_info(worker)))
        crossing.wait_until_it_waits()
        commit_burial()
    again.result(LONG)
    assert crossing.run(crossing.verbs.workers()) == ()


def test_the_buried_are_remembered_for_a_day(crossing):
    """After that a worker of the same name is a new one, which can be buried again."""
    worker = crossing.register()
    crossing.bury(worker, DeathKind.STOPPED)
    crossing.clock.advance(BURIED_KEPT.total_seconds())
    crossing.run(crossing.verbs.register(_info(worker)))
    assert crossing.run(crossing.verbs.workers()) == ()
    crossing.clock.advance(1)
    crossing.run(crossing.verbs.register(_info(worker)))
    assert [known.info.id for known in crossing.run(crossing.verbs.workers())] == [worker]
    crossing.bury(worker, DeathKind.STOPPED)
    assert crossing.run(crossing.verbs.workers()) == ()


# -- the end of a claim, and who else acts upon it ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("move", "state", "reason"),
    [(Move.COMPLETE, State.COMPLETED, None), (Move.RETRY, State.CANCELLED, Reason.REQUESTED)],
)
def test_a_finish_that_meets_a_cancel_heeds_it(crossing, move, state, reason):
    """It waits, and sees that somebody asked: a success stays one, and a job to be tried again is cancelled."""
    worker, [ref] = _claimed(crossing, 1)
    with crossing.underway(cancel_job(crossing.verbs, ref.job_id)) as commit_cancel:
        finish = crossing.later(crossing.verbs.finish(worker, [Ending(ref, move)]))
        crossing.wait_until_it_waits()
        assert commit_cancel() is Cancellation.REQUESTED
    assert finish.result(LONG) == (ACCEPTED,)
    job = crossing.job(ref.job_id)
    assert (job.state, job.reason, job.cancel_requested) == (state, reason, True)


@pytest.mark.parametrize(
    ("move", "answer", "state"),
    [
        (Move.COMPLETE, Cancellation.TOO_LATE, State.COMPLETED),
        (Move.RETRY, Cancellation.CANCELLED, State.CANCELLED),
    ],
)
def test_a_cancel_that_meets_a_finish_finds_the_job_where_that_put_it(crossing, move, answer, state):
    """It waits, and looks again."""
    worker, [ref] = _claimed(crossing, 1)
    with crossing.underway(crossing.verbs.finish(worker, [Ending(ref, move)])) as commit_finish:
        cancel = crossing.later(cancel_job(crossing.verbs, ref.job_id))
        crossing.wait_until_it_waits()
        assert commit_finish() == (ACCEPTED,)
    assert cancel.result(LONG) is answer
    assert crossing.job(ref.job_id).state is state


def _replacement(crossing):
    return crossing.new_job(key="k", on_conflict=OnConflict.REPLACE)


@pytest.mark.parametrize(
    ("move", "state", "reason"),
    [(Move.COMPLETE, State.COMPLETED, None), (Move.RETRY, State.CANCELLED, Reason.REPLACED)],
)
def test_a_finish_that_meets_a_replacement_sets_it_free(crossing, move, state, reason):
    """It waits, sees that it was replaced, and lets the other go: a job that nobody wakes would wait for ever."""
    worker, [ref] = _claimed(crossing, 1, key="k")
    new = _replacement(crossing)
    finish = crossing.verbs.finish(worker, [Ending(ref, move)])
    with crossing.underway(crossing.verbs.enqueue([new])) as commit_enqueue:
        finished = crossing.later(finish)
        crossing.wait_until_it_waits()
        assert commit_enqueue() == {}
    assert finished.result(LONG) == (ACCEPTED,)
    assert finish.wakes
    assert (crossing.job(ref.job_id).state, crossing.job(ref.job_id).reason) == (state, reason)
    assert (crossing.job(new.id).state, crossing.job(new.id).after) == (State.READY, None)


def test_a_replacement_that_meets_a_finish_need_not_wait_for_it(crossing):
    """It waits for the commit, finds the key free, and is ready at once."""
    worker, [ref] = _claimed(crossing, 1, key="k")
    new = _replacement(crossing)
    with crossing.underway(crossing.verbs.finish(worker, [Ending(ref, Move.COMPLETE)])) as commit_finish:
        enqueue = crossing.later(crossing.verbs.enqueue([new]))
        crossing.wait_until_it_waits()
        commit_finish()
    assert enqueue.result(LONG) == {}
    assert (crossing.job(new.id).state, crossing.job(new.id).after) == (State.READY, None)


@pytest.mark.parametrize("replaced_again", [False, True])
def test_a_finish_that_meets_the_end_of_its_replacement_does_not_stand_in_its_way(crossing, replaced_again):
    """Whether that is cancelled or replaced itself: both take the claim first, so that none waits in a circle."""
    worker, [ref] = _claimed(crossing, 1, key="k")
    first, second = _replacement(crossing), _replacement(crossing)
    crossing.run(crossing.verbs.enqueue([first]))
    end = crossing.verbs.enqueue([second]) if replaced_again else cancel_job(crossing.verbs, first.id)
    with crossing.underway(end) as commit_end:
        finish = crossing.later(crossing.verbs.finish(worker, [Ending(ref, Move.COMPLETE)]))
        crossing.wait_until_it_waits()
        commit_end()
    assert finish.result(LONG) == (ACCEPTED,)
    assert crossing.job(first.id).state is State.CANCELLED
    if replaced_again:
        assert (crossing.job(second.id).state, crossing.job(second.id).after) == (State.READY, None)


@pytest.mark.parametrize("move", [Move.COMPLETE, Move.RETRY])
def test_a_finish_sent_twice_is_accepted_twice(crossing, move):
    """The second copy waits for the first, and finds its ending recorded."""
    worker, refs = _claimed(crossing, 3)
    endings = [Ending(ref, move, delay=timedelta(hours=1)) for ref in refs]
    with crossing.underway(crossing.verbs.finish(worker, endings)) as commit_first:
        again = crossing.later(crossing.verbs.finish(worker, endings))
        crossing.wait_until_it_waits()
        assert commit_first() == (ACCEPTED,) * 3
    assert again.result(LONG) == (ACCEPTED,) * 3
    assert [len(crossing.history(ref.job_id)) for ref in refs] == [1, 1, 1]


def test_a_finish_that_meets_a_burial_is_stale(crossing):
    """The claim was given back; what its worker says no longer counts."""
    worker, [ref] = _claimed(crossing, 1)
    with crossing.underway(crossing.verbs.bury(worker, STOPPED)) as commit_burial:
        finish = crossing.later(crossing.verbs.finish(worker, [Ending(ref, Move.COMPLETE)]))
        crossing.wait_until_it_waits()
        assert commit_burial() == (ref,)
    assert finish.result(LONG) == (STALE,)
    assert crossing.job(ref.job_id).state is State.READY


def test_a_burial_that_meets_a_finish_leaves_that_claim_alone(crossing):
    """It gives back the others."""
    worker, [finished, other] = _claimed(crossing, 2)
    with crossing.underway(crossing.verbs.finish(worker, [Ending(finished, Move.COMPLETE)])) as commit_finish:
        burial = crossing.later(crossing.verbs.bury(worker, STOPPED))
        crossing.wait_until_it_waits()
        assert commit_finish() == (ACCEPTED,)
    assert burial.result(LONG) == (other,)
    assert crossing.job(finished.job_id).state is State.COMPLETED


# -- no circle of waiting ----------------------------------------------------------------------------------------


def _complete(verbs, worker, refs):
    return verbs.finish(worker, [Ending(ref, Move.COMPLETE) for ref in refs])


def _retry(verbs, worker, refs):
    return verbs.finish(worker, [Ending(ref, Move.RETRY) for ref in refs])


def _start(verbs, worker, refs):
    return verbs.start(worker, [(ref, FakeClock().now()) for ref in refs])


def _report(verbs, worker, refs):
    return verbs.progress(worker, [(ref, Progress(1)) for ref in refs])


def _bury(verbs, worker, _):
    return verbs.bury(worker, STOPPED)


def _reconcile(verbs, worker, _):
    return verbs.reconcile(WorkerBeat(worker, closed_call=1000))


@pytest.mark.parametrize("second", [_complete, _retry, _start, _report, _bury, _reconcile])
@pytest.mark.parametrize("first", [_complete, _retry, _start, _report])
def test_opposite_batches_do_not_wait_for_each_other_in_a_circle(crossing, first, second):
    """Both want all three claims, in opposite orders, and the middle one is held while they begin.

    Each would take its first, wait for the middle one, and then for the last, which the other has.
    """
    worker, refs = _claimed(crossing, 3)
    with crossing.locked(refs[1].job_id):
        one = crossing.later(first(crossing.verbs, worker, refs))
        other = crossing.later(second(crossing.verbs, worker, refs[::-1]))
        crossing.wait_until_it_waits(2)
    one.result(LONG)
    other.result(LONG)


def test_supervisors_that_name_each_others_workers_do_not_wait_in_a_circle(crossing):
    """Beats and condemnations of several workers take them in the order of their names."""
    workers = sorted(crossing.register() for _ in range(3))
    crossing.clock.advance(LEASE + 1)
    with crossing.own.transaction():
        crossing.own.execute(crossing.named("SELECT FROM {}.worker WHERE id = %s FOR UPDATE"), (workers[1],))
        beat = crossing.later(crossing.verbs.beat([WorkerBeat(worker) for worker in reversed(workers)]))
        condemned = crossing.later(crossing.verbs.condemn(frozenset(workers)))
        crossing.wait_until_it_waits(2)
    assert len(beat.result(LONG).accepted | condemned.result(LONG)) == 3


# -- sweeping ----------------------------------------------------------------------------------------------------


def test_two_sweeps_at_once_fold_the_counters_without_waiting(crossing, monkeypatch):
    """Neither waits for the other, and the sums are the same before, between and after."""
    monkeypatch.setattr(supervise, "TALLY_ROWS", 2)
    worker, refs = _claimed(crossing, 5)
    for ref in refs:
        crossing.finish(worker, ref, Move.COMPLETE)
    with crossing.underway(crossing.verbs.forget_results(10)):
        crossing.later(crossing.verbs.forget_results(10)).result(LONG)
        assert crossing.run(count_states(crossing.verbs))[State.COMPLETED] == 5
    assert crossing.run(count_states(crossing.verbs))[State.COMPLETED] == 5
    rows = crossing.own.execute(crossing.named("SELECT queue, state, jobs FROM {}.tally")).fetchall()
    assert rows == [("default", "completed", 5)]


def test_two_sweeps_at_once_forget_different_results(crossing):
    """A result that one of them is about to forget is left to it."""
    worker, refs = _claimed(crossing, 4)
    endings = [Ending(ref, Move.COMPLETE, result=b"1", keep_result=timedelta(seconds=1)) for ref in refs]
    crossing.run(crossing.verbs.finish(worker, endings))
    crossing.clock.advance(2)
    with crossing.underway(crossing.verbs.forget_results(3)) as commit_first:
        second = crossing.later(crossing.verbs.forget_results(3)).result(LONG)
        assert (commit_first(), second) == (3, 1)
    assert crossing.run(crossing.verbs.forget_results(3)) == 0
