"""Many jobs at once: counted and confirmed first, each once, bounded, and what cannot be done is told."""

import asyncio
from datetime import timedelta

import msgspec
import pytest

from dashboard_stage import SMTP
from standfast.admin.audit_trail import read_trail
from standfast.admin.operation import NotAllowedError, NotConfirmedError, Role, WrongRequestError
from standfast.admin.registry import BY_NAME
from standfast.errors import StoreUnavailableError
from standfast.model.job import JobAction, NewJob
from standfast.model.states import Move, State
from standfast.stores.contract import change_job
from standfast.stores.verb import Procedure


def counted(stage, action, **which):
    seen = stage.read("jobs.count", action=action, **which)
    return {"action": action, "expected": seen.count, "confirm": seen.confirm, **which}


def test_all_dead_jobs_of_a_kind_are_tried_again(stage):
    """And no other; the audit has the filter and the numbers, in one entry."""
    gone = [stage.dead(f"user {number} is gone") for number in range(40)]
    full = stage.dead("disk full")
    done = stage.act("jobs.bulk", Role.OPERATOR, **counted(stage, "retry", error="gone"))
    assert (done.done, done.failed, done.passed_over, done.more) == (40, 0, 0, False)
    assert {stage.job(job).state for job in gone} == {State.READY}
    assert stage.job(full).state is State.DEAD
    [entry] = stage.read("audit.list").entries
    assert (entry.what, entry.asked["error"], str(entry.before)) == ("jobs.bulk", "gone", "40 jobs")
    assert str(entry.after) == "40 done, 0 failed, 0 passed over"


def test_every_action_acts_on_what_it_can(stage):
    """Cancel what is not over, discard the dead, give what waits another time."""
    dead, waits = stage.dead(), stage.enqueue()
    stage.act("jobs.bulk", **counted(stage, "reschedule"), at="2h")
    assert stage.job(waits).run_at == stage.clock.now() + timedelta(hours=2)
    stage.act("jobs.bulk", **counted(stage, "cancel"))
    assert (stage.job(waits).state, stage.job(dead).state) == (State.CANCELLED, State.DEAD)
    stage.act("jobs.bulk", **counted(stage, "discard"))
    assert stage.job(dead).state is State.CANCELLED


def test_nothing_happens_without_the_right_confirmation(stage):
    """Another filter, another number, another action, nonsense: count again."""
    job = stage.dead()
    asked = counted(stage, "discard", queue="mail")
    for wrong in (
        {"queue": None},
        {"queue": "web"},
        {"expected": 2},
        {"action": "retry"},
        {"confirm": ""},
        {"confirm": "x"},
        {"task": "send_email"},
    ):
        with pytest.raises(NotConfirmedError, match="count again"):
            stage.act("jobs.bulk", **{**asked, **wrong})
    assert stage.job(job).state is State.DEAD


def test_only_what_was_there_at_the_count_is_meant(stage):
    """A job that comes between count and act is left alone."""
    first = stage.dead()
    asked = counted(stage, "discard")
    second = stage.dead()
    assert stage.act("jobs.bulk", **asked).done == 1
    assert (stage.job(first).state, stage.job(second).state) == (State.CANCELLED, State.DEAD)


def test_what_dies_after_the_count_is_not_meant(stage):
    """A job that was there at the count, and dies between that and the act, is left alone."""
    dead, other = stage.dead(), stage.enqueue(max_attempts=1)
    asked = counted(stage, "retry")
    stage.clock.advance(1)
    stage.end(other, Move.DIE, failure=SMTP)
    assert (asked["expected"], stage.act("jobs.bulk", **asked).done) == (1, 1)
    assert (stage.job(dead).state, stage.job(other).state) == (State.READY, State.DEAD)


def test_never_is_it_done_to_more_than_were_confirmed(stage):
    """Also where a job has come into the filter of which nobody can tell since when: the newest are taken."""
    job = stage.dead()
    for _ in range(2):
        stage.enqueue()
    asked = counted(stage, "reschedule", state=(State.READY,))
    stage.do(change_job(stage.verbs, JobAction.RETRY, job))
    done = stage.act("jobs.bulk", **asked, at="2h")
    assert (asked["expected"], done.done, done.more) == (2, 2, True)
    assert stage.job(job).state is State.READY


def test_to_discard_many_is_for_those_who_may_discard_one(stage):
    """An operator may not."""
    job = stage.dead()
    with pytest.raises(NotAllowedError):
        stage.act("jobs.bulk", Role.OPERATOR, **counted(stage, "discard"))
    assert stage.job(job).state is State.DEAD


def test_what_cannot_be_done_is_told_and_stops_nothing(stage):
    """A key that another job has now; of many, the first few."""
    taken = [stage.dead(key=f"k{number}") for number in range(25)]
    for number in range(25):
        stage.enqueue(key=f"k{number}", queue="later")
    done = stage.act("jobs.bulk", **counted(stage, "retry"))
    assert (done.done, done.failed, len(done.errors)) == (0, 25, 20)
    assert {error.id for error in done.errors} <= set(taken)


def test_more_than_one_call_does_is_confirmed_once(stage, monkeypatch):
    """Told where to go on, the same is asked again; the numbers and the one entry of the audit count all calls."""
    jobs = [stage.dead() for _ in range(5)]
    monkeypatch.setattr("standfast.admin.bulk_jobs.SECONDS", 0.0)
    monkeypatch.setattr("standfast.admin.job_search._FIRST", 2)
    monkeypatch.setattr("standfast.admin.job_search._PAGE", 2)
    asked = counted(stage, "discard")
    later = stage.dead()
    first = stage.act("jobs.bulk", **asked)
    second = stage.act("jobs.bulk", **asked, goes_on=first.goes_on)
    [entry] = stage.read("audit.list").entries
    assert str(entry.after).startswith("begun, its end is not written down yet; so far 4 done")
    last = stage.act("jobs.bulk", **asked, goes_on=second.goes_on)
    assert [(each.done, each.more) for each in (first, second, last)] == [(2, True), (4, True), (5, False)]
    assert (first.goes_on == second.goes_on, last.goes_on) == (True, None)
    assert {stage.job(job).state for job in jobs} == {State.CANCELLED}
    assert stage.job(later).state is State.DEAD
    [entry] = stage.read("audit.list").entries
    assert (entry.asked["action"], str(entry.after)) == ("discard", "5 done, 0 failed, 0 passed over")


def test_only_ones_own_act_goes_on_and_only_the_same(stage, monkeypatch):
    """Neither that of somebody else, nor with another confirmation, nor one that is over or never was."""
    for _ in range(3):
        stage.dead()
    monkeypatch.setattr("standfast.admin.bulk_jobs.SECONDS", 0.0)
    monkeypatch.setattr("standfast.admin.job_search._FIRST", 1)
    asked = counted(stage, "retry")
    goes_on = stage.act("jobs.bulk", Role.OPERATOR, **asked).goes_on
    assert goes_on is not None
    other = counted(stage, "retry")
    for wrong in ({**asked, "goes_on": "none"}, {**other, "goes_on": goes_on}):
        with pytest.raises(NotConfirmedError):
            stage.act("jobs.bulk", Role.OPERATOR, **wrong)
    somebody = stage.desk(Role.OPERATOR)
    somebody.user = msgspec.structs.replace(somebody.user, name="eve")
    with pytest.raises(NotConfirmedError):
        stage.wait(acting_of(somebody, **asked, goes_on=goes_on))
    assert stage.read("jobs.count", state=(State.DEAD,)).count == 2


def test_what_was_done_before_the_store_failed_is_written_down(stage, monkeypatch):
    """The error is told, and how far it came."""
    for _ in range(3):
        stage.dead()
    monkeypatch.setattr("standfast.admin.job_search._FIRST", 2)
    asked = counted(stage, "discard")
    change, calls = stage.backend.verbs.change_jobs, []

    def failing(*how):
        calls.append(how)
        if len(calls) == 2:
            raise StoreUnavailableError("gone")
        return change(*how)

    monkeypatch.setattr(stage.backend.verbs, "change_jobs", failing, raising=False)
    with pytest.raises(StoreUnavailableError):
        stage.act("jobs.bulk", **asked)
    [entry] = stage.read("audit.list").entries
    assert (str(entry.after), str(entry.error)) == ("2 done, 0 failed, 0 passed over", "gone")


def test_reschedule_needs_a_time(stage):
    """And says so before anything is done."""
    stage.do(stage.verbs.enqueue([NewJob("01890000-0000-7000-8000-000000000001", "x", b"{}")]))
    with pytest.raises(WrongRequestError, match="say when"):
        stage.act("jobs.bulk", **counted(stage, "reschedule"))


def acting_of(desk, **asked):
    operation = BY_NAME["jobs.bulk"]
    return desk.act(operation, operation.asked(**asked))


def acting(desk, **asked):
    return asyncio.ensure_future(acting_of(desk, **asked))


def test_what_was_done_before_it_was_told_to_stop_is_written_down(stage, monkeypatch):
    """A stop of the dashboard in the middle: what is under way ends, and the trail has the true number, once."""
    jobs = [stage.dead() for _ in range(6)]
    monkeypatch.setattr("standfast.admin.job_search._FIRST", 2)
    monkeypatch.setattr("standfast.admin.job_search._PAGE", 2)
    asked, calls, desk = counted(stage, "discard"), [], stage.desk()
    ask = desk.ask

    async def stopped_midway():
        task = acting(desk, **asked)

        async def stopping(verb):
            calls.append(isinstance(verb, Procedure))
            if sum(calls) == 2:
                task.cancel()
            await asyncio.sleep(0)
            return await ask(verb)

        desk.ask = stopping
        with pytest.raises(asyncio.CancelledError):
            await task

    stage.wait(stopped_midway())
    assert sum(stage.job(job).state is State.CANCELLED for job in jobs) == 4
    [entry] = stage.read("audit.list").entries
    assert (str(entry.after), str(entry.error)[:11]) == ("4 done, 0 failed, 0 passed over", "ended early")


def test_what_was_begun_is_written_down_before_it_is_done(stage, monkeypatch):
    """So a process that is killed leaves word of it, and, page by page, of how far it had come; then its end."""
    for _ in range(3):
        stage.dead()
    asked, change, seen = counted(stage, "discard"), stage.backend.verbs.change_jobs, []
    monkeypatch.setattr("standfast.admin.job_search._FIRST", 2)

    def looking(*how):
        page = stage.do(read_trail(stage.verbs))
        seen.append([(entry.before, entry.after) for entry in page.entries])
        return change(*how)

    monkeypatch.setattr(stage.backend.verbs, "change_jobs", looking, raising=False)
    stage.act("jobs.bulk", **asked)
    begun = "begun, its end is not written down yet; so far {} done, 0 failed, 0 passed over"
    assert seen == [[("3 jobs", begun.format(number))] for number in (0, 2)]
    [entry] = stage.read("audit.list").entries
    assert str(entry.after) == "3 done, 0 failed, 0 passed over"


def test_what_nobody_foresaw_is_written_down_too(stage, monkeypatch):
    """By its kind: its words may concern nobody."""
    asked = counted(stage, "discard", queue="mail")

    def failing(*_):
        raise ZeroDivisionError("hunter2")

    monkeypatch.setattr(stage.backend.verbs, "list_jobs", failing, raising=False)
    with pytest.raises(ZeroDivisionError):
        stage.act("jobs.bulk", **asked)
    [entry] = stage.read("audit.list").entries
    assert str(entry.error) == "it failed: ZeroDivisionError"
