"""What becomes of fires that were missed or that overlap: every pair of policies, on a clock that stands still."""

from datetime import timedelta

import pytest
from policy_stage import PolicyStage

from schedule_stage import NAME, NOON
from standfast import At, ConfigurationError, Every, Window
from standfast.model.records import Decision
from standfast.model.states import Move, State
from standfast.stores.contract import count_states

HOUR = 3600.0

DOWN = {
    # misfire, overlap -> what the history says after six hours down over missed fires of 13, 14, 15, 16, 17, 18 h
    ("skip", "allow"): ["6 missed"],
    ("skip", "skip"): ["6 missed"],
    ("skip", "queue_one"): ["6 missed"],
    ("skip", "queue_all"): ["6 missed"],
    ("skip", "cancel_running"): ["6 missed"],
    ("once", "allow"): ["5 missed", "caught_up"],
    ("once", "skip"): ["5 missed", "caught_up"],
    ("once", "queue_one"): ["5 missed", "caught_up"],
    ("once", "queue_all"): ["5 missed", "caught_up"],
    ("once", "cancel_running"): ["5 missed", "caught_up"],
    ("all", "allow"): ["caught_up"] * 6,
    ("all", "skip"): ["caught_up"] + ["queued"] * 5,
    ("all", "queue_one"): ["caught_up"] + ["queued"] * 5,
    ("all", "queue_all"): ["caught_up"] + ["queued"] * 5,
    ("all", "cancel_running"): ["5 overlapped", "caught_up"],
}


@pytest.mark.parametrize(("misfire", "overlap"), DOWN)
def test_down_for_six_hours(misfire: str, overlap: str) -> None:
    """Each policy does with missed fires what it says, and the history tells which and why."""
    stage = PolicyStage(Every(HOUR, anchored=True, misfire=misfire, overlap=overlap))
    stage.sleep_until(6 * HOUR + 600)
    stage.look()
    assert [word for _, word in stage.history()] == DOWN[misfire, overlap]
    assert all(fire.note for fire in stage.fires())
    assert stage.fires()[-1].decided_at == stage.now


@pytest.mark.parametrize("overlap", ["skip", "queue_one", "queue_all"])
def test_all_missed_times_run_one_after_the_other(overlap: str) -> None:
    """With `misfire="all"`, unless runs may overlap: the oldest first, and then the schedule goes on."""
    stage = PolicyStage(Every(HOUR, anchored=True, misfire="all", overlap=overlap))
    stage.sleep_until(5 * HOUR + 600)
    stage.look()
    for hour in range(1, 6):
        runs = stage.start_all()
        assert [fire.planned for fire in stage.fires() if fire.job_id == runs[0].job_id] == [stage.at(hour * HOUR)]
        stage.end(runs)
        stage.live_until(5 * HOUR + 600 + 2 * hour)
    assert stage.start_all() == []
    caught_up = 5 if overlap == "skip" else 1
    assert [word for _, word in stage.history()] == ["caught_up"] * caught_up + ["fired"] * (5 - caught_up)
    stage.live_until(6 * HOUR)
    assert len(stage.start_all()) == 1


@pytest.mark.parametrize("misfire", ["skip", "once", "all"])
@pytest.mark.parametrize("overlap", ["allow", "skip", "queue_one", "queue_all", "cancel_running"])
def test_late_by_less_than_the_threshold_is_on_time(misfire: str, overlap: str) -> None:
    """A fire that is late by less than misfire_after is fired, whatever the policy for missed ones."""
    stage = PolicyStage(Every(HOUR, anchored=True, misfire=misfire, overlap=overlap, misfire_after=120))
    stage.sleep_until(HOUR + 119)
    stage.look()
    assert stage.history() == [(HOUR, "fired")]


@pytest.mark.parametrize(
    ("limit", "window", "caught"),
    [(100, None, 6), (2, None, 2), (100, 2.5 * HOUR, 3), (1, 2.5 * HOUR, 1), (100, 60, 0)],
)
def test_catching_up_has_a_cap_and_a_window(limit: int, window: float | None, caught: int) -> None:
    """Of all that were missed the latest are caught up, no more than the limit and none older than the window."""
    stage = PolicyStage(
        Every(HOUR, anchored=True, misfire="all", overlap="allow", catch_up_limit=limit, catch_up_window=window)
    )
    stage.sleep_until(6 * HOUR + 600)
    stage.look()
    made = [fire.planned for fire in stage.decided(Decision.CAUGHT_UP)]
    assert made == [stage.at(hour * HOUR) for hour in range(7 - caught, 7)]
    left = sum(fire.count for fire in stage.decided(Decision.MISSED))
    assert left == 6 - caught


OVERLAPS = {
    # What a run from 1 h on, not over at 2 h and 3 h, makes of those, and which run once it is over at 3.5 h.
    "allow": (["fired", "fired", "fired"], 3, 0),
    "skip": (["fired", "overlapped", "overlapped"], 1, 0),
    "queue_one": (["fired", "queued", "overlapped"], 1, 1),
    "queue_all": (["fired", "queued", "queued"], 1, 2),
    "cancel_running": (["fired", "overlapped", "queued"], 1, 1),
}


@pytest.mark.parametrize("overlap", OVERLAPS)
@pytest.mark.parametrize("ahead", [0, 10], ids=["at the time", "ahead of it"])
def test_overlapping(overlap: str, ahead: float) -> None:
    """A fire that comes while a run is not over is fired, skipped, or waits, as the policy says."""
    stage = PolicyStage(Every(HOUR, anchored=True, overlap=overlap), ahead=ahead)
    stage.live_until(HOUR + 1)
    first = stage.start_all()
    assert len(first) == 1
    stage.live_until(3 * HOUR + 1)
    words, started, waiting = OVERLAPS[overlap]
    assert [word for _, word in stage.history()] == words
    running = first + stage.start_all()
    assert len(running) == started
    asked = overlap == "cancel_running"
    job = stage.backend.run(stage.verbs.get(first[0].job_id))
    assert job is not None
    assert job.cancel_requested is asked
    stage.end(running, Move.CANCEL if asked else Move.COMPLETE)
    for _ in range(waiting):
        stage.live_until((stage.now - NOON).total_seconds() + 2)
        late = stage.start_all()
        assert len(late) == 1, "those that waited run one after the other"
        stage.end(late)
    stage.live_until((stage.now - NOON).total_seconds() + 5)
    assert stage.start_all() == []
    assert stage.decided(Decision.QUEUED) == []


@pytest.mark.parametrize(("overlap", "decision"), [("skip", Decision.OVERLAPPED), ("queue_one", Decision.QUEUED)])
def test_the_run_that_is_in_the_way_is_named(overlap: str, decision: Decision) -> None:
    """With its state: who wonders why a time was not fired need not search for it."""
    stage = PolicyStage(Every(HOUR, anchored=True, overlap=overlap))
    stage.live_until(HOUR + 1)
    [run] = stage.start_all()
    stage.live_until(2 * HOUR + 1)
    [fire] = stage.decided(decision)
    assert fire.note is not None
    assert f"(job {run.job_id}, running)" in fire.note


def test_a_run_that_is_over_in_time_is_in_nobodys_way() -> None:
    """Looked at ahead of its time a fire seems to overlap, but not at its time: it is fired then, and on time."""
    stage = PolicyStage(Every(5, anchored=True, overlap="skip"), ahead=10)
    for second in range(5, 60, 5):
        stage.live_until(second)
        refs = stage.start_all()
        assert len(refs) == 1, second
        stage.live_until(second + 4.9)
        stage.end(refs)
    assert {word for _, word in stage.history()} == {"fired"}


def test_a_paused_schedule_is_silent_and_resumes_from_then_on() -> None:
    """What it had fired ahead is taken back, and what was planned meanwhile is not made up for."""
    stage = PolicyStage(Every(HOUR, anchored=True), ahead=10)
    stage.live_until(HOUR - 5)
    (ahead,) = stage.fires()
    assert stage.state(ahead) is State.SCHEDULED
    stage.call(stage.schedules.pause(NAME, "holidays"))
    assert stage.state(ahead) is State.CANCELLED
    assert stage.history() == [(HOUR, "revoked")]
    stage.live_until(3 * HOUR + 5)
    stage.call(stage.schedules.resume(NAME))
    stage.live_until(4 * HOUR)
    assert stage.history() == [(HOUR, "revoked"), (4 * HOUR, "fired")]


def test_a_changed_schedule_takes_back_what_it_fired_ahead() -> None:
    """The new rule holds from now on; a fire that a worker already has stands, and is not doubled."""
    stage = PolicyStage(Every(HOUR, anchored=True, overlap="allow"), ahead=10)
    stage.live_until(HOUR - 5)
    stage.call(stage.schedules.edit(NAME, rule=Every(HOUR / 2, anchored=True, overlap="allow")))
    assert stage.history() == [(HOUR, "fired")]
    (fire,) = stage.fires()
    assert stage.state(fire) is State.SCHEDULED
    stage.live_until(HOUR * 1.5)
    assert stage.history() == [(HOUR, "fired"), (1.5 * HOUR, "fired")]
    scheduled = stage.backend.run(count_states(stage.verbs))
    assert scheduled[State.CANCELLED] == 1  # the one of the old rule


def test_pausing_itself_after_a_failure() -> None:
    """A dead job of a schedule that says so pauses it, with the reason; the others go on."""
    stage = PolicyStage(Every(HOUR, anchored=True, pause_on_failure=True))
    stage.live_until(HOUR)
    refs = stage.start_all()
    stage.end(refs, Move.DIE)
    stage.live_until(3 * HOUR)
    assert stage.history() == [(HOUR, "fired")]
    plan = stage.schedule.plan
    assert plan.paused_at == stage.at(2 * HOUR)
    assert refs[0].job_id in (plan.paused_why or "")
    stage.call(stage.schedules.resume(NAME))
    stage.live_until(4 * HOUR)
    assert stage.history()[-1] == (4 * HOUR, "fired")


def test_excluded_times_are_in_the_history() -> None:
    """A fire inside a window is not made, and the history says why."""
    night = Window("13:30", "15:30")
    stage = PolicyStage(Every(HOUR, anchored=True, overlap="allow", exclude=night))
    stage.live_until(4 * HOUR)
    assert stage.history() == [(HOUR, "fired"), (2 * HOUR, "excluded"), (3 * HOUR, "excluded"), (4 * HOUR, "fired")]
    assert all("13:30" in (fire.note or "") for fire in stage.decided(Decision.EXCLUDED))


def test_triggered_by_hand() -> None:
    """A trigger fires now, whatever the rule says, and does not move its times."""
    stage = PolicyStage(Every(HOUR, anchored=True, overlap="allow"))
    stage.sleep_until(60)
    job_id = stage.call(stage.schedules.trigger(NAME))
    (fire,) = stage.fires()
    assert (fire.job_id, fire.planned, fire.cause) == (job_id, stage.now, "trigger")
    stage.live_until(HOUR)
    assert stage.history() == [(60, "fired"), (HOUR, "fired")]


def test_a_backfill_runs_what_was_not_fired() -> None:
    """Of a past range the planned times without a job get one each; with `again` all of them."""
    stage = PolicyStage(Every(HOUR, anchored=True, misfire="skip", overlap="allow"))
    stage.live_until(2 * HOUR)
    stage.sleep_until(6 * HOUR + 600)
    stage.look()
    told: list[tuple[int, int]] = []
    since, until = stage.at(0), stage.at(6 * HOUR)

    def fill(*, again: bool) -> int:
        procedure = stage.schedules.backfill(
            NAME, since, until, again=again, progress=lambda done, total: told.append((done, total))
        )
        return stage.call(procedure)

    assert fill(again=False) == 5  # noon itself, which was before its creation, and 15 to 18 h
    assert told[-1] == (5, 5)
    planned = {fire.planned for fire in stage.fires() if fire.cause == "backfill"}
    assert planned == {stage.at(hour * HOUR) for hour in (0, 3, 4, 5, 6)}
    assert fill(again=False) == 0
    assert fill(again=True) == 7


def test_a_schedule_whose_times_are_over_is_refused() -> None:
    """One that would never fire is a mistake, and nothing is stored of it."""
    with pytest.raises(ConfigurationError, match=r"would never fire.*choose later ones"):
        PolicyStage(At(NOON - timedelta(days=1)))


def test_a_very_long_absence_is_decided_at_once() -> None:
    """Years of missed seconds are not gone through one by one."""
    stage = PolicyStage(Every(1, anchored=True, misfire="once", overlap="allow"))
    stage.clock.advance(timedelta(days=400).total_seconds())
    stage.look()
    assert len(stage.decided(Decision.CAUGHT_UP)) == 1
    stage.look()
    assert stage.schedule.plan.cursor <= stage.now
