"""Series for charts: the right resolution for a span, few calls, and helpers that say what charts show."""

from datetime import timedelta

import pytest

from figures_stage import Stage, numbers
from standfast.model.job import NewJob
from standfast.model.states import Move
from standfast.observe.figures.rollup import Gauges, QueueGauge, worse
from standfast.observe.figures.series import NAMES, read_figures
from standfast.stores.contract import cancel_job
from standfast.stores.values import WorkerInfo
from standfast.stores.verb import run_procedure

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@pytest.mark.parametrize(
    ("span", "step", "points"),
    [
        (HOUR, MINUTE, (60, 61)),
        (6 * HOUR, MINUTE, (360, 361)),
        (DAY, 10 * MINUTE, (144, 145)),
        (7 * DAY, HOUR, (168, 169)),
        (30 * DAY, HOUR, (720, 721)),
    ],
)
async def test_each_span_has_its_resolution(span, step, points):
    """And takes a handful of calls, of some hundred names each."""
    stage = Stage()
    stage.count(Move.COMPLETE)
    await stage.publish()
    calls = []

    def run(verb):
        calls.append(verb.name)
        return stage.backend.run(verb)

    series = run_procedure(run, read_figures(stage.verbs, stage.clock.now() - span))
    assert series.step == step
    assert len(series.points) in points
    assert series.total.completed == 1
    assert len(calls) <= 2 + -(-850 // NAMES)


async def test_a_step_of_ones_own():
    """Whole minutes, gathered from what is kept; where that is longer, the next of those."""
    stage = Stage()
    for _ in range(60):
        stage.count(Move.COMPLETE)
        stage.clock.advance(60)
    await stage.publish()
    for step in (5 * MINUTE, 30 * MINUTE, 2 * HOUR):
        series = stage.read(2 * HOUR, step=step)
        assert series.step == step
        assert {point.at.timestamp() % step.total_seconds() for point in series.points} == {0}
        assert series.total.completed == 60
    assert stage.read(DAY, step=7 * MINUTE).step == 10 * MINUTE
    assert stage.read(7 * DAY, step=DAY).step == DAY
    for wrong in (timedelta(seconds=90), timedelta(), -MINUTE):
        with pytest.raises(ValueError, match="whole minutes"):
            stage.read(step=wrong)


async def test_until_leaves_out_what_came_after():
    """The first point begins at or before `since`; there is one in any case."""
    stage = Stage()
    stage.count(Move.COMPLETE)
    await stage.publish()
    stage.clock.advance(600)
    stage.count(Move.DIE)
    await stage.publish()
    before = stage.read(HOUR, until=stage.clock.now() - 5 * MINUTE)
    assert numbers(before.total) == {"completed": 1}
    [point] = stage.read(timedelta()).points
    assert numbers(point.total) == {"dead": 1}


async def test_sums_and_rates():
    """By pair, by task, by queue, the busiest first; by the minute."""
    stage = Stage()
    stage.count(Move.COMPLETE, Move.COMPLETE, task="send", queue="mail", seconds=1.0)
    stage.count(Move.COMPLETE, task="send", queue="bulk", seconds=4.0)
    stage.count(Move.DIE, task="print", queue="bulk", seconds=0.0)
    await stage.publish()
    series = stage.read(9 * MINUTE, step=10 * MINUTE)
    assert [(row.queue, row.task, row.ended) for row in series.by_pair()] == [
        ("mail", "send", 2),
        ("bulk", "print", 1),
        ("bulk", "send", 1),
    ]
    assert [(row.task, row.ended) for row in series.by_task()] == [("send", 3), ("print", 1)]
    assert [(row.queue, row.ended) for row in series.by_queue()] == [("bulk", 2), ("mail", 2)]
    assert sum(series.per_minute()) * 10 == pytest.approx(3)
    assert sum(series.per_minute(lambda row: row.dead)) * 10 == pytest.approx(1)
    send = series.by_task()[0]
    assert timedelta(seconds=0.9) < send.run_percentile(0.5) < timedelta(seconds=1.5)
    assert series.by_task()[1].run_percentile(0.5) is None


async def test_who_wants_some_rows_gets_only_those():
    stage = Stage()
    stage.count(Move.COMPLETE, task="send", queue="mail")
    stage.count(Move.DIE, task="print", queue="bulk")
    await stage.publish()
    wanted = read_figures(stage.verbs, stage.clock.now() - HOUR, only=lambda row: row.queue == "bulk")
    assert [row.task for row in run_procedure(stage.backend.run, wanted).by_pair()] == ["print"]


async def test_gauges_go_on_while_something_waits_and_end_when_nothing_does():
    """A sample a minute with what is folded; then for as long as jobs wait; then nobody writes any more."""
    stage = Stage()
    run, verbs = stage.backend.run, stage.verbs
    run(verbs.register(WorkerInfo("w1", "s", "host", 1, timedelta(days=9))))
    stage.count(Move.COMPLETE)
    await stage.publish()
    stage.clock.advance(20)
    run(verbs.enqueue([NewJob("a", "send", b"{}", queue="mail")]))
    for _ in range(5):
        stage.clock.advance(60)
        stage.fold()
    points = [point.gauges for point in stage.read(6 * MINUTE).points if point.gauges is not None]
    assert len(points) >= 3
    assert {(gauge.workers, gauge.running, gauge.queues[0].ready) for gauge in points} == {(1, 0, 1)}
    assert points[-1].queues[0].oldest >= 180
    run(cancel_job(verbs, "a"))
    for _ in range(4):
        stage.clock.advance(60)
        stage.fold()
    assert stage.read(2 * MINUTE).points[-1].gauges is None
    assert stage.read(HOUR, step=HOUR).points[-1].gauges.queues[0].oldest >= 180


def test_of_several_samples_the_worst_is_told():
    """The fewest workers, the most of all else, queue by queue."""
    one = Gauges(3, 5, (QueueGauge("a", 1, 9.0), QueueGauge("b", 2, 1.0)))
    other = Gauges(2, 1, (QueueGauge("b", 7, 0.5), QueueGauge("c", 1, 1.0)))
    assert worse(one, other) == Gauges(
        2, 5, (QueueGauge("a", 1, 9.0), QueueGauge("b", 7, 1.0), QueueGauge("c", 1, 1.0))
    )
    assert worse(None, one) is one
