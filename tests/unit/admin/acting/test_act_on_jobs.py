"""What is done to one job: it happens, is written down, and is refused where it cannot be."""

from datetime import timedelta

import pytest

from dashboard_stage import open_stage
from standfast.admin.operation import NotAllowedError, Role, WrongRequestError
from standfast.errors import ArgumentsError, JobNotFoundError, JobStateError
from standfast.model.memos import signal_reason
from standfast.model.states import Move, Reason, State
from standfast.supervisor.orders import orders_about


def last(stage):
    return stage.read("audit.list").entries[0]


def test_a_dead_job_is_tried_again(stage):
    """It is ready, with who did it, before and after; once."""
    job = stage.dead()
    assert stage.act("jobs.retry", Role.OPERATOR, id=job).answer == "requeued"
    assert stage.job(job).state is State.READY
    assert (last(stage).what, str(last(stage).before), str(last(stage).after)) == ("jobs.retry", "dead", "ready")
    with pytest.raises(JobStateError):
        stage.act("jobs.retry", id=job)
    assert "only a dead job" in str(last(stage).error)


def test_a_job_is_cancelled_or_asked_to_stop(stage):
    """One that waits at once; one that runs is asked; one that is over is too late, unless it is cancelled."""
    runs = stage.running()
    waits = stage.enqueue()
    assert stage.act("jobs.cancel", id=waits).answer == "cancelled"
    assert stage.act("jobs.cancel", id=waits).answer == "cancelled"
    assert stage.act("jobs.cancel", id=runs).answer == "requested"
    assert stage.job(runs).cancel_requested
    with pytest.raises(JobStateError, match="too late"):
        stage.act("jobs.cancel", id=stage.dead())


def test_a_running_job_is_killed_with_its_process_by_an_order(stage):
    """It is cancelled first; who cannot be killed stays so, as the order says on the page of its worker."""
    runs = stage.running()
    assert stage.act("jobs.cancel", id=runs, kill=True).answer == "requested"
    job = stage.job(runs)
    assert job.cancel_requested
    [order] = stage.do(orders_about(stage.verbs, job.worker))
    assert (order.what, order.details) == ("kill", {"job": runs, "fence": str(job.fence)})
    assert stage.act("jobs.cancel", id=stage.enqueue(), kill=True).answer == "cancelled"
    assert len(stage.do(orders_about(stage.verbs, job.worker))) == 1


def test_a_job_is_discarded_by_admins(stage):
    """And by nobody else; the attempt is written down."""
    job = stage.dead()
    with pytest.raises(NotAllowedError):
        stage.act("jobs.discard", Role.OPERATOR, id=job)
    assert (last(stage).what, stage.job(job).state) == ("jobs.discard", State.DEAD)
    stage.act("jobs.discard", id=job)
    assert (stage.job(job).state, stage.job(job).reason) == (State.CANCELLED, Reason.DISCARDED)


def test_a_job_is_given_another_time(stage):
    """A span from now, or a date; nonsense is refused in words, and so is a job that runs."""
    job = stage.enqueue()
    stage.act("jobs.reschedule", id=job, at="2h")
    assert stage.job(job).run_at == stage.clock.now() + timedelta(hours=2)
    stage.act("jobs.reschedule", id=job, at="2030-01-01T00:00+08:00")
    assert stage.job(job).run_at.isoformat() == "2029-12-31T16:00:00+00:00"
    for nonsense in ("", "soon", "2030-01-01"):
        with pytest.raises(WrongRequestError):
            stage.act("jobs.reschedule", id=job, at=nonsense)
    with pytest.raises(WrongRequestError, match="at must lie within the years 1 to 9999"):
        stage.act("jobs.reschedule", id=job, at="9999-12-31T23:59:59.999999Z")
    with pytest.raises(JobStateError):
        stage.act("jobs.reschedule", id=stage.running(), at="1s")


def test_a_signal_reaches_a_job(stage):
    """One that waits for it goes on; one that is over takes none; what it carries is not written down."""
    job = stage.enqueue()
    stage.end(job, Move.SNOOZE, reason=signal_reason("paid"), delay=timedelta(hours=1))
    assert stage.job(job).state is State.SCHEDULED
    stage.act("jobs.signal", id=job, name="paid", data={"amount": 7})
    assert stage.job(job).state is State.READY
    assert "7" not in str(last(stage).asked.get("data"))
    with pytest.raises(ArgumentsError):
        stage.act("jobs.signal", id=job, name="")


def test_nobody_acts_where_the_dashboard_only_shows():
    """Not even an admin."""
    with open_stage(read_only=True) as stage:
        job = stage.dead()
        with pytest.raises(NotAllowedError, match="read-only"):
            stage.act("jobs.retry", id=job)
        assert stage.job(job).state is State.DEAD


def test_what_is_not_there_is_not_acted_on(stage):
    """Whatever is to be done."""
    for operation in ("jobs.retry", "jobs.cancel", "jobs.discard"):
        with pytest.raises(JobNotFoundError):
            stage.act(operation, id="01890000-0000-7000-8000-000000000000")
