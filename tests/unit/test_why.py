"""Why a job is where it is: each situation is told in words that name the obstacle and its remedy."""

import re
import time
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from holdfast.core.job import Job
from holdfast.core.states import State
from holdfast.store.protocol import Situation, Worker, WorkerInfo
from holdfast.watch.why import explain

NOW = datetime(2026, 5, 4, 14, 3, 4, tzinfo=UTC)
SECOND = timedelta(seconds=1)

JOB = Job(
    id="0197b1c2-7d1e-7c3a-9f60-5a4b3c2d1e0f",
    task="send_email",
    version=2,
    queue="mail",
    priority=0,
    state=State.READY,
    reason=None,
    until=None,
    run_at=NOW - 2 * SECOND,
    created_at=NOW - 60 * SECOND,
    finished_at=None,
    fence=0,
    attempt=0,
    crashes=0,
    max_attempts=3,
    alone=False,
    cancel_requested=False,
    worker=None,
    payload=b"",
    result=None,
    error=None,
    progress=None,
)

WORKER = Worker(
    info=WorkerInfo("w1", "s1", "web-01", 4242, 15 * SECOND, None, 10),
    started_at=NOW - 3600 * SECOND,
    beat_age=SECOND,
    condemned=False,
    held=0,
    running=4,
)


@pytest.fixture(autouse=True)
def utc(monkeypatch):
    """Times are told in the machine's zone, which is UTC here."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def why(*, workers=(WORKER,), paused_at=None, ahead=0, started_at=None, **job):
    return explain(Situation(replace(JOB, **job), NOW, paused_at, tuple(workers), ahead), started_at)


def silent(seconds, **changes):
    return replace(WORKER, beat_age=seconds * SECOND, **changes)


def serving(*queues):
    return replace(WORKER, info=replace(WORKER.info, queues=queues))


class TestScheduled:
    def test_a_delayed_job_waits_for_its_time(self):
        text = why(state=State.SCHEDULED, run_at=NOW + 3 * SECOND)
        assert text == "It waits until 14:03:07 (in 3 s), the time it was enqueued for."

    def test_a_retried_job_names_the_attempt_and_the_error_before(self):
        text = why(
            state=State.SCHEDULED,
            run_at=NOW + 3 * SECOND,
            fence=1,
            attempt=1,
            error="ConnectionError: refused\nby peer",
        )
        assert text == (
            "It waits until 14:03:07 (in 3 s) for its second attempt of 3 after ConnectionError: refused by peer."
        )

    def test_a_snoozed_job_was_charged_nothing(self):
        text = why(state=State.SCHEDULED, run_at=NOW + 90 * SECOND, fence=1)
        assert "until 14:04:34 (in 2 min)" in text
        assert "no attempt was charged" in text

    def test_until_goes_before_run_at(self):
        assert "until 14:03:14" in why(state=State.SCHEDULED, until=NOW + 10 * SECOND)

    def test_a_pause_that_will_keep_it_longer_is_told_at_once(self):
        text = why(state=State.SCHEDULED, run_at=NOW + 3 * SECOND, paused_at=NOW - 60 * SECOND)
        assert "queue 'mail' is paused since 14:02:04 (1 min ago)" in text

    def test_one_whose_time_has_come_is_told_like_a_ready_one(self):
        assert "no worker is running" in why(state=State.SCHEDULED, workers=())


class TestReady:
    def test_a_paused_queue_comes_first_with_its_remedy(self):
        text = why(paused_at=NOW - 60 * SECOND, workers=())
        assert text == (
            "It has been due since 14:03:02 (2 s ago), and queue 'mail' is paused since 14:02:04 (1 min ago):"
            " `holdfast queues resume mail` lets it go on."
        )

    def test_without_any_worker_it_says_how_to_start_one(self):
        assert "no worker is running: start one with `holdfast worker MODULE:APP`" in why(workers=())

    @pytest.mark.parametrize("worker", [silent(20), silent(1, condemned=True)])
    def test_a_silent_or_condemned_worker_does_not_count(self, worker):
        assert "no worker is alive (the last one gave its last sign of life" in why(workers=[worker])

    def test_workers_of_other_queues_do_not_help(self):
        text = why(workers=[serving("media", "billing")])
        assert "no running worker serves queue 'mail' (served: billing, media)" in text
        assert "--queues mail" in text

    def test_a_suspect_waits_to_run_alone(self):
        assert "it was running when a worker crashed (2 crashes), so it waits" in why(alone=True, crashes=2)

    def test_busy_workers_are_counted_with_who_goes_first(self):
        text = why(workers=[replace(WORKER, held=2, running=8), serving("media")], ahead=12)
        assert "the 1 worker serving its queue is busy (10 of 10 places taken); 12 jobs go first" in text

    def test_a_queue_ahead_of_it_is_counted(self):
        assert "will take it soon (4 of 10 places taken); 1 job goes first" in why(ahead=1)

    def test_the_next_one_is_told_so(self):
        assert "it goes next" in why(workers=[serving("mail")])

    def test_one_given_back_before_its_time_waits_for_it(self):
        assert why(run_at=NOW + 3 * SECOND) == "It waits until 14:03:07 (in 3 s), the time it is due."


class TestBlocked:
    def test_an_unknown_task_names_itself_and_its_version(self):
        assert why(state=State.BLOCKED, reason="no_worker") == (
            "No running worker knows task 'send_email' (payload version 2):"
            " deploy or start a worker that registers it, and it will run."
        )

    def test_any_other_reason_is_told_with_its_end(self):
        text = why(state=State.BLOCKED, reason="waits for\x1b[31m payment", until=NOW + 3 * SECOND)
        assert text == "It is blocked until 14:03:07 (in 3 s): waits for�[31m payment."


class TestClaimed:
    def test_a_running_job_names_its_worker_and_its_start(self):
        text = why(state=State.RUNNING, worker="w1", attempt=1, started_at=NOW - 12 * SECOND)
        assert text == "It runs on worker w1 (host web-01, pid 4242) since 14:02:52 (12 s ago), attempt 2 of 3."

    def test_a_held_job_names_its_start_to_come(self):
        text = why(state=State.HELD, worker="w1", run_at=NOW + 3 * SECOND)
        assert text == "It is held by worker w1 (host web-01, pid 4242); it starts at 14:03:07 (in 3 s)."

    def test_a_due_held_job_waits_for_a_place(self):
        assert "starts as soon as a place is free" in why(state=State.HELD, worker="w1")

    @pytest.mark.parametrize("state", [State.HELD, State.RUNNING])
    def test_a_requested_cancellation_is_told(self, state):
        assert "Its cancellation was requested" in why(state=state, worker="w1", cancel_requested=True)

    def test_a_worker_that_misses_beats_is_told_with_the_end_of_its_lease(self):
        text = why(state=State.RUNNING, worker="w1", workers=[silent(9)])
        assert "silent for 9 s; its lease ends in 6 s." in text

    def test_a_lost_worker_is_buried_by_another(self):
        other = replace(WORKER, info=replace(WORKER.info, id="w2"))
        text = why(state=State.RUNNING, worker="w1", workers=[silent(20), other])
        assert (
            "silent for 20 s, longer than its lease of 15 s: a worker gives the job back once it has been alive"
            " for a lease" in text
        )

    def test_without_another_worker_someone_must_start_one(self):
        text = why(state=State.RUNNING, worker="w1", workers=[silent(20)])
        assert "the job goes back when a worker runs again; start one" in text

    def test_an_unregistered_worker_is_told(self):
        text = why(state=State.RUNNING, worker="w9", workers=[])
        assert text.startswith("It runs on worker w9,")
        assert "no longer registered" in text


class TestFinal:
    def test_completed_names_the_time_and_the_attempt(self):
        text = why(state=State.COMPLETED, finished_at=NOW - 12 * SECOND, attempt=1)
        assert text == "It completed at 14:02:52 (12 s ago) on its second attempt."

    def test_exhausted_attempts_name_the_command_that_requeues(self):
        text = why(state=State.DEAD, finished_at=NOW, attempt=3, error="SMTPError: 451.")
        assert text == (
            "It is dead since 14:03:04 (now): all 3 attempts failed. Its last error: SMTPError: 451."
            f" `holdfast dead retry {JOB.id}` runs it again, `holdfast dead discard` drops it."
        )

    def test_an_only_attempt_is_not_called_all(self):
        assert "its only attempt failed" in why(state=State.DEAD, attempt=1, max_attempts=1)

    def test_crashes_are_a_cause_of_their_own(self):
        text = why(state=State.DEAD, attempt=3, max_attempts=5, crashes=3, alone=True)
        assert "it crashed the process that ran it 3 times" in text

    def test_a_handler_may_give_up(self):
        assert "its handler gave it up on attempt 1 of 3" in why(state=State.DEAD, attempt=1)

    @pytest.mark.parametrize(
        ("reason", "words"),
        [
            ("requested", "someone asked for it"),
            ("discarded", "it was discarded"),
            ("order 42 was refunded", "order 42 was refunded"),
            (None, "no reason was given"),
        ],
    )
    def test_cancelled_gives_the_reason(self, reason, words):
        text = why(state=State.CANCELLED, finished_at=NOW - 12 * SECOND, reason=reason)
        assert text == f"It was cancelled at 14:02:52 (12 s ago): {words}."


@pytest.mark.parametrize("state", list(State))
def test_every_state_has_an_explanation_of_whole_sentences(state):
    text = why(state=state, worker="w1")
    assert re.fullmatch(r"[A-Z].*\.", text)
