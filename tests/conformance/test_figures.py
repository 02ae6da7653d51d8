"""Figures on every store: parts are folded once, pages fill those above, and what is kept no longer goes."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from conformance import Harness
from figures_stage import Stage, numbers
from standfast.model.concurrency import run_without_loop
from standfast.model.records import Kind
from standfast.model.states import Move
from standfast.observe.figures.rollup import sample
from standfast.stores.verb import Procedure, run_procedure

TEN = timedelta(minutes=10)
ALL = {"completed": 40, "failed": 2, "dead": 2}


def counted(harness: Harness) -> Stage:
    """Return a stage on which two workers have counted for twenty minutes, and folded all but the last."""
    stage = Stage(harness.backend, harness.clock)
    for number in range(20):
        for worker in ("w1", "w2"):
            stage.count(Move.COMPLETE, worker=worker)
            if number == 7:
                stage.count(Move.RETRY, Move.DIE, worker=worker)
        run_without_loop(stage.publish())
        if number % 5 == 4:
            stage.fold()
        harness.clock.advance(60)
    return stage


def test_what_is_read_is_what_was_counted(harness: Harness) -> None:
    """Before it is folded and after, by minute, ten minutes and hour, and when minutes and more are forgotten."""
    stage = counted(harness)
    for wait in (0, 90, 7200):
        harness.clock.advance(wait)
        stage.fold()
        for step in (None, TEN, timedelta(hours=1)):
            assert numbers(stage.read(timedelta(hours=3), step=step).total) == ALL
    for _ in range(2):
        harness.clock.advance(86_400 * 2.5)
        stage.fold()
    assert stage.records().keys() == {"1h"}
    assert numbers(stage.read(timedelta(days=6)).total) == ALL


def test_of_many_who_fold_each_part_is_counted_once(harness: Harness) -> None:
    """However they meet."""
    stage = counted(harness)
    harness.clock.advance(90)
    with ThreadPoolExecutor(4) as pool:
        for each in [pool.submit(stage.fold) for _ in range(4)]:
            each.result()
    stage.fold()
    assert numbers(stage.read().total) == ALL
    left = harness.backend.run(harness.verbs.records(Kind.TALLY))
    assert {record.name.split(".")[1] for record in left} & {"w1", "w2"} == set()


def test_a_beat_tells_when_to_fold(harness: Harness) -> None:
    """Twenty seconds after the minute; nothing is due before anything was counted."""
    worker = harness.register()
    assert harness.beat(worker).record_due_at is None
    stage = Stage(harness.backend, harness.clock)
    stage.count(Move.COMPLETE)
    run_without_loop(stage.publish())
    now = harness.clock.now()
    assert harness.beat(worker).record_due_at == now.replace(second=0, microsecond=0) + timedelta(seconds=80)


def test_how_things_stand(harness: Harness) -> None:
    """Jobs that are ready and since when, who lives, what runs."""
    harness.register()
    harness.enqueue()
    harness.clock.advance(5)
    gauges = run_procedure(harness.backend.run, Procedure(sample(harness.verbs)))
    assert (gauges.workers, gauges.running) == (1, 0)
    [queue] = gauges.queues
    assert (queue.ready, queue.oldest) == (1, 5.0)
