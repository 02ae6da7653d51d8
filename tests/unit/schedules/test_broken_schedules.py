"""What once broke schedules: fires doubled or dropped around pauses, edits, backfills and deploys."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from schedule_stage import JOB, NAME, NOON, WORKER, Stage
from standfast import Every
from standfast.errors import ConfigurationError
from standfast.model.job import Ending
from standfast.model.records import Decision
from standfast.model.states import Move, State
from standfast.schedules.decision import COUNTED, MOST_RUNS
from standfast.schedules.declarations import Declaration, Declarer, Synchronised, synchronise
from standfast.stores.verb import run_procedure


def test_a_resumed_schedule_still_minds_what_is_running() -> None:
    """Pausing and resuming does not let two runs overlap that must not."""
    stage = Stage(Every(30, overlap="skip"))
    stage.clock.advance(30)
    stage.look()
    stage.start(stage.claim())
    stage.call(stage.schedules.pause(NAME))
    stage.call(stage.schedules.resume(NAME))
    stage.clock.advance(30)
    stage.look()
    assert [fire.decision for fire in stage.fires()] == [Decision.FIRED, Decision.OVERLAPPED]


@pytest.mark.parametrize("overlap", ["skip", "allow"])
def test_a_fire_that_a_worker_may_still_start_is_not_fired_again(overlap: str) -> None:
    """A job that was asked back a moment before its time may run all the same: it must remain the only one."""
    stage = Stage(Every(30, overlap=overlap))
    stage.clock.advance(25)
    stage.look()
    assert len(stage.claim()) == 1
    stage.call(stage.schedules.pause(NAME))
    stage.call(stage.schedules.resume(NAME))
    stage.clock.advance(10)
    stage.look()
    assert [(fire.planned, fire.decision) for fire in stage.fires()] == [
        (NOON + timedelta(seconds=30), Decision.REVOKED)
    ]


def test_a_fire_that_was_cancelled_by_a_pause_is_fired_after_the_resume() -> None:
    stage = Stage(Every(30))
    stage.clock.advance(25)
    stage.look()
    stage.call(stage.schedules.pause(NAME))
    stage.call(stage.schedules.resume(NAME))
    assert [fire.decision for fire in stage.fires()] == [Decision.FIRED]
    assert stage.live() == [State.SCHEDULED]


def test_an_edit_drops_no_fire_before_one_that_a_worker_has() -> None:
    """Of two fires ahead of their time a worker has the second one only: the first is fired anew."""
    stage = Stage(Every(4, overlap="allow"))
    stage.look()
    stage.clock.advance(1)
    first, second = stage.schedule.plan.runs
    refs = stage.claim()
    assert [ref.job_id for ref in refs] == [first.job_id, second.job_id]
    stage.backend.run(stage.verbs.finish(WORKER, [Ending(refs[0], Move.RELEASE)]))
    stage.call(stage.schedules.edit(NAME, job=lambda job: replace(job, payload=b"[]")))
    edited = {fire.planned: fire for fire in stage.fires()}
    assert {fire.decision for fire in edited.values()} == {Decision.FIRED}
    assert edited[first.planned].job_id != first.job_id
    assert edited[second.planned].job_id == second.job_id
    assert len(edited) == len(stage.live())


def test_more_fires_ahead_than_runs_are_minded_otherwise_are_all_taken_back() -> None:
    stage = Stage(Every(0.1, overlap="allow"), ahead=20)
    assert len(stage.schedule.plan.runs) > MOST_RUNS
    stage.call(stage.schedules.pause(NAME))
    ids = [run.job_id for run in stage.schedule.plan.runs]
    assert {glance.state for glance in stage.backend.run(stage.verbs.glance(ids)).values()} == {State.CANCELLED}
    assert len(ids) == 200


@pytest.mark.parametrize(("misfire", "caught_up"), [("once", 1), ("all", 100)])
def test_after_a_very_long_time_the_latest_are_caught_up(misfire: str, caught_up: int) -> None:
    """Where more were missed than are counted, it is the oldest that are let go."""
    stage = Stage(Every(1, misfire=misfire, overlap="allow", catch_up_window=3600))
    stage.clock.advance(2 * COUNTED)
    fires = [fire for fire in stage.look().fires if fire.decision is Decision.CAUGHT_UP]
    assert len(fires) == caught_up
    assert fires[-1].planned == stage.clock.now() - timedelta(seconds=61)


def test_cancel_running_cancels_also_a_run_that_began_in_the_same_look() -> None:
    """Two times have come since the last look: the second one does not wait for all of the first one's run."""
    stage = Stage(Every(10, overlap="cancel_running"), ahead=0)
    stage.clock.advance(21)
    stage.look()
    stage.start(stage.claim())
    stage.clock.advance(1)
    stage.look()
    (first,) = stage.schedule.plan.runs
    assert stage.backend.run(stage.verbs.get(first.job_id)).cancel_requested


def test_triggers_of_a_paused_schedule_do_not_pile_up() -> None:
    stage = Stage(Every(3600))
    stage.call(stage.schedules.pause(NAME))
    for _ in range(MOST_RUNS + 20):
        stage.call(stage.schedules.trigger(NAME))
    assert len(stage.schedule.plan.runs) <= MOST_RUNS + 1


def test_an_edit_that_stood_still_meanwhile_fires_nothing_twice() -> None:
    """Another has fired and forgotten a run since the edit asked for the time."""
    stage = Stage(Every(10, overlap="allow"), ahead=0)
    asked = 0

    def stand_still_once(verb):
        nonlocal asked
        answer, asked = stage.backend.run(verb), asked + 1
        for _ in range(2 if asked == 1 else 0):
            stage.clock.advance(10)
            stage.look()
        return answer

    edit = stage.schedules.edit(NAME, job=lambda job: replace(job, payload=b"[]"))
    run_procedure(stand_still_once, edit)
    assert len(stage.backend.run(stage.verbs.fires(NAME, 10))) == 2
    assert len({fire.job_id for fire in stage.fires()}) == len(stage.claim()) == 2


def test_another_that_was_made_under_the_name_meanwhile_is_left_alone() -> None:
    """Deleted and created anew between the read and the write of an edit: the edit is of the new one."""
    stage = Stage(Every(3600))
    asked = 0

    def make_anew_once(verb):
        nonlocal asked
        answer, asked = stage.backend.run(verb), asked + 1
        if asked == 1:
            stage.call(stage.schedules.delete(NAME))
            stage.create(NAME, Every(60))
        return answer

    edit = stage.schedules.edit(NAME, job=lambda job: replace(job, payload=b"[]"))
    run_procedure(make_anew_once, edit)
    assert (stage.schedule.plan.rule, stage.schedule.plan.job.payload) == (Every(60), b"[]")


@pytest.mark.parametrize(
    ("rule", "job"),
    [
        ("0 2 * * *", None),
        (lambda _: None, None),
        (None, lambda _: "tidy"),
        (None, lambda job: replace(job, priority=10**20)),
        (None, lambda job: replace(job, task=7)),
    ],
)
def test_an_edit_that_would_make_a_schedule_unreadable_is_refused(rule, job) -> None:
    stage = Stage(Every(3600))
    with pytest.raises(ConfigurationError):
        stage.call(stage.schedules.edit(NAME, rule=rule, job=job))
    assert stage.schedule.version == 1


def test_an_errand_is_run_once() -> None:
    stage = Stage(Every(3600))
    procedure = stage.schedules.get(NAME)
    stage.call(procedure)
    with pytest.raises(ConfigurationError, match="anew"):
        stage.call(procedure)


def test_a_fire_is_on_time_if_it_is_as_late_as_it_may_be() -> None:
    stage = Stage(Every(3600, misfire="skip", misfire_after=60), ahead=0)
    stage.clock.advance(3660)
    assert [fire.decision for fire in stage.look().fires] == [Decision.FIRED]


def test_two_backfills_at_the_same_time_fill_each_time_once() -> None:
    """Both have seen that nothing was fired; the second one looks again before it writes."""
    stage = Stage(Every(10, misfire="skip", overlap="allow"), ahead=0)
    stage.clock.advance(500)
    stage.look()
    filled = list[int]()

    def fill(run) -> None:
        until = NOON + timedelta(seconds=300)
        asked = stage.schedules.backfill(NAME, NOON, until)
        filled.append(run_procedure(run, asked))

    def let_another_in(verb):
        answer = stage.backend.run(verb)
        if verb.name == "fires" and not filled:
            fill(stage.backend.run)
        return answer

    fill(let_another_in)
    assert filled == [30, 0]


def test_each_declaration_is_told_of_though_others_were_faster_with_some() -> None:
    stage = Stage()

    def declare(release: str, interval: float, run) -> Synchronised:
        declared = [Declaration(f"every-{number}", Every(interval + number), JOB) for number in range(20)]
        return run_procedure(
            run, synchronise(stage.verbs, Declarer("app", release, "w", stage.ahead), declared, ())
        )

    def let_fires_come_first(verb):
        if verb.name == "change_records":
            stage.look()
        return stage.backend.run(verb)

    assert len(declare("1", 60, stage.backend.run).added) == 20
    stage.clock.advance(55)
    changed = declare("2", 90, let_fires_come_first).changed
    assert len({schedule.name for schedule in changed}) == len(changed) == 20
