"""Why a job is where it is: each situation is told in words that name the obstacle and its remedy."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from standfast.errors import PayloadError
from standfast.model.arguments import Arguments
from standfast.model.job import SCHEDULE_KEY, Job, OnLate
from standfast.model.memos import FOR_EVER
from standfast.model.states import State
from standfast.observe.obstacles import Cause
from standfast.observe.why import explain
from standfast.schedules.closed_hours import About, declare_hours
from standfast.schedules.windows import Window
from standfast.stores.values import Situation, Vitals, Worker, WorkerInfo

pytestmark = pytest.mark.usefixtures("utc")

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
    run_at=NOW - 2 * SECOND,
    created_at=NOW - 60 * SECOND,
    finished_at=None,
    fence=0,
    attempt=0,
    crashes=0,
    max_attempts=3,
    group=0,
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


def explained(*, workers=(WORKER,), paused_at=None, ahead=0, started_at=None, tasks=None, **job):
    situation = Situation(replace(JOB, **job), NOW, paused_at, tuple(workers), ahead)
    return explain(situation, started_at, tasks=tasks or {})


def why(**situation):
    return explained(**situation).text


def silent(seconds, **changes):
    return replace(WORKER, beat_age=seconds * SECOND, **changes)


def serving(*queues):
    return replace(WORKER, info=replace(WORKER.info, queues=queues))


class TestScheduled:
    def test_a_delayed_job_waits_for_its_time(self):
        text = why(state=State.SCHEDULED, run_at=NOW + 3 * SECOND)
        assert text == (
            "It waits until 14:03:07 (in 3 s), the time it was enqueued for."
            f" `standfast jobs retry {JOB.id}` lets it run now."
        )

    def test_a_retried_job_names_the_attempt_and_the_error_before(self):
        text = why(
            state=State.SCHEDULED,
            run_at=NOW + 3 * SECOND,
            fence=1,
            attempt=1,
            error="ConnectionError: refused\nby peer",
        )
        assert text.startswith(
            "It waits until 14:03:07 (in 3 s) for its second attempt of 3 after ConnectionError: refused by peer."
        )

    def test_a_snoozed_job_was_charged_nothing(self):
        text = why(state=State.SCHEDULED, run_at=NOW + 90 * SECOND, fence=1)
        assert "until 14:04:34 (in 2 min)" in text
        assert "no attempt was charged" in text

    def test_a_pause_that_will_keep_it_longer_is_told_at_once(self):
        text = why(state=State.SCHEDULED, run_at=NOW + 3 * SECOND, paused_at=NOW - 60 * SECOND)
        assert "Even then it will not start: queue 'mail' is paused since 14:02:04 (1 min ago)." in text
        assert text.endswith("`standfast queues resume mail` lets it go on.")

    def test_one_whose_time_has_come_is_told_like_a_ready_one(self):
        assert "no worker is running" in why(state=State.SCHEDULED, workers=())


class TestReady:
    def test_a_paused_queue_comes_first_with_its_remedy(self):
        text = why(paused_at=NOW - 60 * SECOND, workers=())
        assert text == (
            "It has been due since 14:03:02 (2 s ago), and queue 'mail' is paused since 14:02:04 (1 min ago)."
            " `standfast queues resume mail` lets it go on."
        )

    def test_without_any_worker_it_says_how_to_start_one(self):
        assert "no worker is running. Start one with `standfast worker MODULE:APP`." in why(workers=())

    @pytest.mark.parametrize("worker", [silent(20), silent(1, condemned=True)])
    def test_a_silent_or_condemned_worker_does_not_count(self, worker):
        assert "no worker is alive (the last one gave its last sign of life" in why(workers=[worker])

    def test_workers_of_other_queues_do_not_help(self):
        text = why(workers=[serving("media", "billing")])
        assert "no running worker serves queue 'mail' (served: billing, media)" in text
        assert "--queues mail" in text

    @pytest.mark.parametrize(
        ("group", "among"),
        [(1, "alone"), (2, "with at most 1 other suspect"), (8, "with at most 7 other suspects")],
    )
    def test_a_suspect_waits_for_a_process(self, group, among):
        told = explained(group=group, crashes=2)
        assert f"its process died while it ran: it runs again, {among}, as soon as a worker process" in told.text
        assert (told.cause, told.remedy) == (Cause.SUSPECT, None)

    @pytest.mark.parametrize("workers", [[], [silent(20)], [serving("media")]])
    def test_a_suspect_whose_worker_just_died_is_not_told_to_start_one_unless_none_is_left(self, workers):
        """Its supervisor is about to start a child for it, and no worker is registered meanwhile."""
        told = explained(group=2, crashes=1, workers=workers)
        assert told.cause is Cause.SUSPECT
        assert told.text.endswith(" If no `standfast worker` for queue 'mail' runs any more, start one.")

    def test_a_suspect_of_a_paused_queue_waits_for_its_end(self):
        told = explained(group=2, crashes=1, workers=[], paused_at=NOW - 60 * SECOND)
        assert told.cause is Cause.QUEUE_PAUSED

    def test_busy_workers_are_counted_with_who_goes_first(self):
        text = why(workers=[replace(WORKER, held=2, running=8), serving("media")], ahead=12)
        assert (
            "the 1 worker serving its queue is busy (10 of 10 places taken);"
            " 12 jobs of its queue with a higher priority or longer waiting go first." in text
        )

    def test_who_goes_first_is_left_out_where_nobody_does(self):
        assert "busy (10 of 10 places taken). Run more workers" in why(workers=[replace(WORKER, running=10)])

    def test_what_is_held_ahead_of_its_time_does_not_make_more_places_than_there_are(self):
        assert "10 of 10 places taken" in why(workers=[replace(WORKER, held=300)])

    def test_a_queue_ahead_of_it_is_counted(self):
        text = why(ahead=1)
        assert "will take it soon (4 of 10 places taken); 1 job of its queue" in text
        assert text.endswith("longer waiting goes first.")

    def test_the_next_one_is_told_so(self):
        assert "it is the next of its queue" in why(workers=[serving("mail")])

    @pytest.mark.parametrize(
        ("named", "told"),
        [
            (("critical", "urgent", "mail"), "; with --strict, those of critical, urgent go before."),
            (("mail", "low"), "places taken)."),
        ],
    )
    def test_queues_that_may_be_served_before_are_named(self, named, told):
        """Whether a worker is strict nobody but itself knows."""
        assert told in why(workers=[replace(serving(*named), running=10)])

    def test_one_given_back_before_its_time_waits_for_it(self):
        assert why(run_at=NOW + 3 * SECOND) == "It waits until 14:03:07 (in 3 s), the time it is due."


class TestOverdue:
    """What should happen at any moment, and does not, is no matter of waiting."""

    def test_a_job_that_nobody_takes_though_there_is_room_is_a_matter_for_the_log(self):
        told = explained(run_at=NOW - 40 * SECOND)
        assert told.cause is Cause.NOT_TAKEN
        assert "the 1 worker serving its queue has not taken it for 40 s" in told.text
        assert "A limit or peak of its task, its queue or a gate may be reached there" in told.text
        assert (
            "else look in the log of worker w1 (host web-01, pid 4242): a handler may block its event loop"
            in told.text
        )

    def test_a_worker_that_holds_jobs_and_runs_none_has_room(self):
        """A handler that blocks the event loop is not even reported as running."""
        stuck = replace(WORKER, held=20, running=0)
        assert explained(workers=[stuck], run_at=NOW - 40 * SECOND).cause is Cause.NOT_TAKEN

    def test_where_all_places_run_a_job_it_waits_however_long(self):
        full = replace(WORKER, running=10)
        assert explained(workers=[full], run_at=NOW - 3600 * SECOND).cause is Cause.BUSY

    @pytest.mark.parametrize(
        "since", [{"workers": [replace(WORKER, started_at=NOW - SECOND)]}, {"created_at": NOW - SECOND}]
    )
    def test_the_time_for_which_nobody_could_take_it_does_not_count(self, since):
        assert explained(run_at=NOW - 3600 * SECOND, **since).cause is Cause.NEXT

    def test_in_a_line_the_remedy_is_to_see_whether_it_moves(self):
        told = explained(run_at=NOW - 40 * SECOND, ahead=7)
        assert told.cause is Cause.IN_LINE
        assert "Ask again: if as many go first then, a limit or peak of its task" in told.text

    def test_many_workers_are_not_named_one_by_one(self):
        crowd = [replace(WORKER, info=replace(WORKER.info, id=f"w{number}")) for number in range(9)]
        assert "the log of the 9 workers:" in why(workers=crowd, run_at=NOW - 40 * SECOND)

    def test_a_held_job_that_does_not_start_though_there_is_room_is_a_matter_for_the_log(self):
        told = explained(state=State.HELD, worker="w1", run_at=NOW - 40 * SECOND)
        assert told.cause is Cause.NOT_STARTED
        assert "was not reported to run, though only 4 of the 10 places there run a job." in told.text
        assert "if it is still held then, look in the log of worker w1" in told.text

    def test_a_held_job_waits_for_a_place_however_long(self):
        full = replace(WORKER, running=10)
        told = explained(state=State.HELD, worker="w1", workers=[full], run_at=NOW - 40 * SECOND)
        assert told.cause is Cause.HELD


TOO_LATE = {"run_at": NOW - 60 * SECOND, "start_by": NOW - 30 * SECOND, "on_late": OnLate.EXPIRE}


class TestExpiry:
    @pytest.mark.parametrize(
        "where",
        [{"workers": ()}, {"paused_at": NOW}, {"state": State.HELD, "worker": "w1"}, {"state": State.SCHEDULED}],
    )
    def test_a_job_that_is_too_late_for_its_start_is_told_to_expire(self, where):
        text = why(**TOO_LATE, **where)
        assert "It was to start by 14:02:34 (30 s ago) at the latest: it expires as soon as a worker comes" in text

    @pytest.mark.parametrize(
        "spared",
        [
            {"on_late": OnLate.RUN},
            {"attempt": 1},
            {"start_by": NOW + SECOND},
            {"run_at": NOW - SECOND},
            {"state": State.RUNNING, "worker": "w1"},
        ],
    )
    def test_others_are_not(self, spared):
        """It may run late, was tried before, still has time, was put off beyond it, or has started."""
        assert "expires" not in why(**{**TOO_LATE, **spared})

    @pytest.mark.parametrize(
        ("fence", "where"), [(1, {}), (2, {"state": State.HELD, "worker": "w1"}), (1, {"state": State.SCHEDULED})]
    )
    def test_one_that_came_before_may_have_begun(self, fence, where):
        """Then to go on is never too late, and only a worker can tell."""
        assert "unless it has begun" in why(**TOO_LATE, fence=fence, **where)
        assert "unless it has begun" not in why(**TOO_LATE, fence=fence - 1, **where)


WAITS = {"state": State.SCHEDULED, "fence": 1, "reason": "signal:approved"}
NIGHT = declare_hours(About.QUEUE, "mail", Window("14:00", "15:00"))


@pytest.mark.parametrize(("hour", "is_closed"), [(14, True), (16, False)])
def test_a_signal_may_come_at_any_time(hour, is_closed):
    """So what counts is whether its queue is closed now, and not at the time until which it would wait."""
    now = NOW.replace(hour=hour)
    job = replace(JOB, **WAITS, run_at=NOW.replace(hour=14 if hour == 16 else 16) + FOR_EVER)
    text = explain(Situation(job, now, None, (WORKER,), 0), windows=[NIGHT]).text
    assert ("Its queue 'mail' is closed until 15:00 UTC" in text) is is_closed
    assert "then closed" not in text


class TestSuspended:
    def test_a_job_that_sleeps_says_until_when(self):
        told = explained(**{**WAITS, "reason": "sleep"}, run_at=NOW + 60 * SECOND)
        assert told.cause is Cause.SLEEPING
        assert str(told.says) == (
            "Its handler sleeps until 14:04:04 (in 1 min), without a slot; then it runs again from its top."
        )

    def test_a_job_that_waits_says_for_what_and_how_to_send_it(self):
        told = explained(**WAITS, run_at=NOW + 60 * SECOND)
        assert told.cause is Cause.WAITING_FOR_SIGNAL
        assert str(told.says).startswith("It waits for signal 'approved', until 14:04:04 (in 1 min) at the latest,")
        assert str(told.remedy) == f"`standfast jobs signal {JOB.id} approved` sends it"
        assert "however long that takes" in str(explained(**WAITS, run_at=NOW + FOR_EVER).says)

    def test_a_pause_of_its_queue_is_told_too(self):
        told = why(**WAITS, run_at=NOW + 60 * SECOND, paused_at=NOW - SECOND)
        assert "Even then it will not start: " in told

    def test_one_whose_time_has_come_is_due_as_any_other(self):
        assert explained(**WAITS, run_at=NOW - SECOND).cause not in {Cause.SLEEPING, Cause.WAITING_FOR_SIGNAL}


class TestBlocked:
    def test_an_unknown_task_names_itself_and_its_version(self):
        assert why(state=State.BLOCKED, reason="no_worker") == (
            "No running worker knows task 'send_email' (payload version 2)."
            " Deploy or start a worker that registers it, and it will run."
        )

    def test_a_known_task_that_is_spelled_nearly_so_is_named(self):
        told = explained(state=State.BLOCKED, reason="no_worker", task="send_emial", tasks={"send_email": "none"})
        assert str(told.remedy).startswith("did you mean task 'send_email'? then cancel this job")
        other_version = explained(state=State.BLOCKED, reason="no_worker", tasks={"send_email": "none"})
        assert str(other_version.remedy).startswith("deploy or start a worker")

    @pytest.mark.parametrize(
        ("obstacle", "cause"),
        [
            ({"paused_at": NOW}, Cause.QUEUE_PAUSED),
            ({"workers": ()}, Cause.NO_WORKER),
            ({"workers": [serving("media")]}, Cause.NOT_SERVED),
        ],
    )
    def test_what_would_keep_a_worker_away_that_knows_it_is_told_instead(self, obstacle, cause):
        """One may run by now: a job of a paused or unserved queue stays put aside all the same."""
        told = explained(state=State.BLOCKED, reason="no_worker", **obstacle)
        assert told.cause is cause
        assert told.text.startswith("It was put aside by a worker that does not know task 'send_email'")

    def test_a_replacement_points_to_the_job_before_it(self):
        told = explained(state=State.BLOCKED, reason="replacing", after="0197")
        assert told.cause is Cause.REPLACING
        assert str(told.remedy) == "`standfast why 0197` says how that one stands"

    def test_any_other_reason_is_told_with_its_end(self):
        text = why(state=State.BLOCKED, reason="waits for\x1b[31m payment")
        assert text == "It is blocked: waits for�[31m payment."


class TestCancelling:
    def told(self, seconds, **more):
        """Its supervisor said with its last beat, a second ago, for how long the handler knew then."""
        vitals = None if seconds is None else Vitals(told={JOB.id: seconds})
        workers = [replace(WORKER, vitals=vitals)]
        return explained(state=State.RUNNING, worker="w1", cancel_requested=True, workers=workers, **more)

    def test_before_the_next_beat_it_is_about_to_be_told(self):
        told = self.told(None)
        assert told.text.endswith("Its cancellation was requested; the worker hears of it at its next beat.")
        assert told.remedy is None

    def test_a_handler_that_was_just_told_has_time_to_tidy_up(self):
        told = self.told(3.0)
        assert told.text.endswith("Its cancellation was requested, and its handler was told 4 s ago.")
        assert told.remedy is None

    def test_one_that_ignores_it_is_named_with_the_ways_out(self):
        """A plain function cannot be interrupted: to ask it again would not help."""
        told = self.told(39.0)
        assert "its handler was told 40 s ago, and goes on" in told.text
        assert "at its next beat" not in told.text
        assert str(told.remedy) == (
            f"`standfast workers recycle --job {JOB.id}` replaces the process in which it runs; for the next time,"
            " give its task a timeout, or isolation='process', in which a run can be killed"
        )

    def test_one_in_a_process_of_its_own_can_be_killed(self):
        told = self.told(39.0, tasks={"send_email": "process"})
        assert str(told.remedy) == f"`standfast jobs cancel --kill {JOB.id}` kills the process in which it runs"


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
        assert "the job goes back when a worker runs again. Start one" in text

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
            f" `standfast dead retry {JOB.id}` runs it again, `standfast dead discard {JOB.id}` drops it."
        )

    def test_an_only_attempt_is_not_called_all(self):
        assert "its only attempt failed" in why(state=State.DEAD, attempt=1, max_attempts=1)

    def test_crashes_are_a_cause_of_their_own(self):
        text = why(state=State.DEAD, attempt=3, max_attempts=5, crashes=3, group=1)
        assert "it crashed the process that ran it 3 times" in text

    def test_a_handler_may_give_up(self):
        assert "its handler gave it up on attempt 1 of 3" in why(state=State.DEAD, attempt=1)

    def test_arguments_that_do_not_fit_name_both_cures(self):
        def send_email(to: str) -> str:
            return to

        with pytest.raises(PayloadError) as refused:
            Arguments(send_email, task="send_email").decode(b'{"v":1,"args":{"too":"a"}}')
        text = why(state=State.DEAD, attempt=1, error=f"standfast.errors.PayloadError: {refused.value}")
        assert "its arguments do not fit the task, so its handler was not called. Its last error: standfast" in text
        assert (
            "Correct what enqueues it and enqueue it anew; or, where the parameters of the task have changed,"
            in text
        )
        assert (
            f"raise its version and declare an upgrade, and then `standfast dead retry {JOB.id}` runs it again"
            in text
        )

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
        assert text == (f"It was cancelled at 14:02:52 (12 s ago): {words}. To run it after all, enqueue it anew.")

    def test_a_replaced_job_says_how_to_find_the_one_in_its_place(self):
        told = explained(state=State.CANCELLED, reason="replaced", key="order 42")
        assert told.cause is Cause.REPLACED
        assert told.text.endswith("`standfast jobs list --task send_email --key 'order 42'` shows which.")

    def test_an_expired_job_names_its_latest_start(self):
        told = explained(state=State.CANCELLED, reason="expired", start_by=NOW - 30 * SECOND)
        assert told.cause is Cause.EXPIRED
        assert "too late to its start, by 14:02:34 (30 s ago) at the latest, and it was enqueued with" in told.text

    def test_a_cancelled_job_of_a_schedule_may_have_been_taken_back_by_it(self):
        text = why(state=State.CANCELLED, reason="requested", metadata={SCHEDULE_KEY: "nightly"})
        assert "or a pause or change of its schedule took it back" in text
        assert "`standfast schedules trigger nightly`" in text


@pytest.mark.parametrize("state", list(State))
def test_every_state_has_an_explanation_of_whole_sentences(state):
    told = explained(state=state, worker="w1")
    assert re.fullmatch(r"[A-Z].*\.", told.text)
    assert told.remedy is None or not str(told.remedy).endswith(".")


def test_a_delivery_that_was_put_off_names_its_channel():
    """It may be one that nobody has; one that was tried, or another task's job, says nothing of the kind."""
    put_off = {"state": State.SCHEDULED, "run_at": NOW + 5 * SECOND, "fence": 3, "metadata": {"channel": "opps"}}
    [note] = explained(task="standfast.deliver", **put_off).notes
    assert str(note).startswith("It goes through channel 'opps', and a process that does not have this channel")
    assert explained(task="standfast.deliver", **put_off, attempt=1).notes == ()
    assert explained(**put_off).notes == ()
    assert explained(task="standfast.deliver", **{**put_off, "fence": 0}).notes == ()
