"""One job: all that is known of it, bounded, why it is where it is, and nothing that is secret."""

from datetime import timedelta

import msgspec
import pytest

from dashboard_stage import SECRET, WORKER
from standfast.admin import fields
from standfast.durable.lockstate import LockRequest, take
from standfast.errors import JobNotFoundError
from standfast.model.job import HISTORY_FIRST, HISTORY_LAST, Failure
from standfast.model.phrases import in_english
from standfast.model.records import Kind
from standfast.model.states import Move, State


def test_a_job_with_its_story(stage):
    """Arguments, result, attempts with traceback and log, a timeline, and the reason for all of it."""
    job = stage.enqueue(key="k", tags=("vip",), metadata={"by": "ada"})
    failure = Failure("OSError", "gone", "Traceback …\nOSError: gone")
    stage.end(job, Move.RETRY, failure=failure, log="line 1\nline 2", delay=timedelta(minutes=1))
    seen = stage.read("jobs.show", id=job)
    assert (seen.id, seen.state, seen.key, seen.tags) == (job, State.SCHEDULED, "k", ("vip",))
    assert seen.metadata == {"by": "ada"}
    assert {name: value.value for name, value in seen.args.items()} == {"to": "ada@example.com", "n": [1, 2]}
    [attempt] = seen.attempts
    assert (attempt.how, attempt.error, attempt.worker) == ("retry", "OSError: gone", WORKER)
    assert (attempt.traceback.text, attempt.log.text) == ("Traceback …\nOSError: gone", "line 1\nline 2")
    assert [station.what for station in seen.timeline] == ["enqueued", "started", "retry", "due"]
    assert seen.why.cause == "retry_wait"
    assert seen.can == ("jobs.retry", "jobs.cancel", "jobs.reschedule", "jobs.signal", "jobs.clone")


def test_of_a_long_history_what_lies_between_is_counted(stage):
    """The first and the last claims are told one by one, those between by how they ended."""
    job = stage.enqueue(max_attempts=1000)
    for number in range(HISTORY_FIRST + HISTORY_LAST + 12):
        stage.end(job, Move.RETRY if number == HISTORY_FIRST else Move.SNOOZE)
    seen = stage.read("jobs.show", id=job)
    assert {each.how: each.folded for each in seen.attempts if each.folded} == {"retry": 1, "snooze": 11}
    assert sum(not each.folded for each in seen.attempts) == HISTORY_FIRST + HISTORY_LAST
    [between] = [station for station in seen.timeline if station.what == "folded"]
    assert between.detail == "12"
    assert len(seen.timeline) == 2 * (HISTORY_FIRST + HISTORY_LAST) + 3


def test_the_end_of_an_id_will_do(stage):
    """As pages and logs show it; too little of it, or that of nothing, finds nothing."""
    job = stage.enqueue()
    assert stage.read("jobs.show", id=job[-8:]).id == job
    for unknown in ("zzzzzzzz", job[-3:], ""):
        with pytest.raises(JobNotFoundError):
            stage.read("jobs.show", id=unknown)


def test_what_is_secret_is_masked_everywhere(stage):
    """Secret arguments are named and never shown, not even as a part of anything."""
    seen = stage.read("jobs.show", id=stage.dead(payload=SECRET))
    assert (seen.args["token"].secret, seen.args["token"].value) == (True, None)
    assert b"hunter2" not in msgspec.json.encode(seen, enc_hook=in_english)


def test_long_values_are_cut_and_say_so(stage, monkeypatch):
    """Of what is too long there is the beginning, and how long it is; of texts the end."""
    monkeypatch.setattr(fields, "LONGEST_TEXT", 10)
    args = {"long": "x" * 50_000, "short": 1}
    job = stage.enqueue(payload=msgspec.json.encode({"v": 1, "args": args}))
    stage.end(job, Move.COMPLETE, result=msgspec.json.encode("r" * 30_000), log="0123456789the end")
    seen = stage.read("jobs.show", id=job)
    assert (seen.args["long"].value, seen.args["long"].size) == (None, 50_002)
    assert seen.args["long"].beginning.startswith('"xxx')
    assert seen.args["short"].value == 1
    assert (seen.result.value, seen.result.size) == (None, 30_002)
    assert (seen.attempts[0].log.text, seen.attempts[0].log.cut) == ("789the end", True)


def test_a_payload_that_cannot_be_read_is_told(stage):
    """Nothing fails: it says why."""
    seen = stage.read("jobs.show", id=stage.enqueue(payload=b"\xff\x00nonsense"))
    assert (seen.args, "cannot be read" in str(seen.args_problem)) == ({}, True)


def test_what_can_be_done_depends_on_the_state(stage):
    """A dead job can be tried again, edited and discarded; one that is over can be cloned."""
    assert stage.read("jobs.show", id=stage.dead()).can == (
        "jobs.retry",
        "jobs.edit_and_retry",
        "jobs.discard",
        "jobs.clone",
    )
    assert stage.read("jobs.show", id=stage.completed()).can == ("jobs.clone",)
    assert "jobs.cancel" in stage.read("jobs.show", id=stage.running()).can


def test_locks_that_a_job_holds_are_named(stage):
    """Those whose owner is the job."""
    job = stage.running()
    bid = LockRequest("h1", timedelta(seconds=30), 1, f"job {job}")
    stage.do(take(stage.verbs, Kind.LOCK, "ledger", bid))
    assert [lock.name for lock in stage.read("jobs.show", id=job).locks] == ["ledger"]
    [lock] = stage.read("locks.list").locks
    assert (lock.name, lock.places, [holder.owner for holder in lock.holders]) == ("ledger", 1, [f"job {job}"])
