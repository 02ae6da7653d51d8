"""Where there are more queues and tasks than are told apart, neither trouble is hidden nor what people ask for."""

from datetime import timedelta

import msgspec
import pytest

from figures_stage import Stage, count, ended, numbers
from standfast.model.alerts import AlertRule, Check, Objective
from standfast.model.records import Kind
from standfast.model.states import Move
from standfast.observe.alerts.checks import dead_letters
from standfast.observe.alerts.observations import Observations
from standfast.observe.burn_rates import read_standings
from standfast.observe.figures.counts import (
    COMPLETED,
    CROWDED,
    LAG,
    LONGEST_RUN,
    OTHER,
    PAIRS,
    ROWS_LIMIT,
    RUN,
    UNNAMED,
    Named,
    Tally,
    add_rows,
    named_by,
    new_count,
    to_rows,
)
from standfast.observe.figures.publisher import Publisher
from standfast.observe.figures.rollup import read_rollup
from standfast.stores.verb import run_procedure
from standfast.testing import FakeClock

MANY = PAIRS + 60
RARE = AlertRule(name="rare-dies", check=Check.DEAD_LETTERS, task="rare", above=0)


@pytest.fixture
def stage():
    return Stage()


def crowd(stage: Stage, pairs: int = MANY, times: int = 3) -> None:
    """Let jobs of very many tasks complete."""
    for number in range(pairs):
        stage.count(*[Move.COMPLETE] * times, task=f"task-{number}", queue=f"queue-{number}")


def who_names(stage: Stage, named: Named, worker: str = "w1") -> None:
    """Have a worker who knows these names."""
    tally = Tally(stage.clock, named)
    stage.workers[worker] = tally, Publisher(tally, worker, stage.verbs, stage.run)


def breaches(stage: Stage, rule: AlertRule) -> list[tuple[str, int]]:
    now = stage.clock.now()
    return [
        (found.subject, found.count) for found in dead_letters(rule, Observations(now, now, figures=stage.read()))
    ]


@pytest.mark.parametrize("pairs", [MANY, 2 * CROWDED])
async def test_those_that_died_or_failed_are_told_before_those_that_worked(stage, pairs):
    """Though they come last and are the fewest: in parts, and in minutes, tens and hours."""
    crowd(stage, pairs)
    stage.count(Move.DIE, Move.DIE, task="rare")
    stage.count(Move.RETRY, task="shaky")
    await stage.publish()
    for after in (0, 90, 3 * 3600):
        stage.clock.advance(after)
        stage.fold()
        told = {row.task: row for row in stage.read(timedelta(hours=5), step=timedelta(hours=1)).by_task()}
        assert numbers(told["rare"]) == {"dead": 2}
        assert numbers(told["shaky"]) == {"failed": 1}
        assert len(told) == PAIRS + 1
        assert sum(row.completed for row in told.values()) == 3 * pairs
    assert breaches(stage, RARE) == []  # it is long ago


async def test_a_rule_about_a_rare_task_fires(stage):
    """Though more tasks than are told apart were there before it."""
    crowd(stage)
    stage.count(Move.DIE, Move.DIE, task="rare")
    await stage.publish()
    assert breaches(stage, RARE) == [("rare", 2)]


@pytest.mark.parametrize("wait", [0, 90, 3 * 3600])
async def test_what_is_named_is_counted_in_full(stage, wait):
    """A task in very many queues, a queue of very many tasks, one of a kind: each rarer than any of the crowd."""
    task = Objective(name="task", target=0.9, task="send")
    queue = Objective(name="queue", target=0.9, queue="mail")
    single = Objective(name="single", target=0.9, task="rare")
    who_names(stage, named_by([task, queue, single]))
    crowd(stage, 2 * CROWDED)
    for number in range(MANY):
        stage.count(Move.COMPLETE, task="send", queue=f"customer-{number}")
        stage.count(Move.COMPLETE, task=f"letter-{number}", queue="mail")
    stage.count(Move.COMPLETE, task="rare", queue="aside")
    stage.count(Move.COMPLETE, task="send", queue="mail")
    stage.count(Move.DIE, task="send", queue="customer-0", worker="supervisor")
    await stage.publish()
    stage.clock.advance(wait)
    stage.fold()
    found = run_procedure(stage.backend.run, read_standings(stage.verbs, [task, queue, single]))
    assert [(each.good, each.bad) for each in found] == [(MANY + 1, 1), (MANY + 1, 0), (1, 0)]
    series = stage.read(timedelta(hours=5), step=timedelta(hours=1))
    assert series.total.completed == 3 * 2 * CROWDED + 2 * MANY + 2


async def test_a_rule_about_a_crowded_queue_fires(stage):
    """Its jobs die in more tasks than are told apart: all of them count."""
    rule = AlertRule(name="mail-dies", check=Check.DEAD_LETTERS, queue="mail", above=0)
    who_names(stage, named_by([rule]))
    for number in range(MANY):
        stage.count(Move.DIE, task=f"letter-{number}", queue="mail")
    await stage.publish()
    assert breaches(stage, rule) == [("mail", MANY)]


async def test_pages_say_what_is_named_and_nothing_where_nothing_is(stage):
    """Who folds may be a supervisor of another app: it goes by what those who counted knew."""
    who_names(stage, named_by([RARE, Objective(name="mail", target=0.9, queue="mail")]))
    stage.count(Move.COMPLETE, task="rare", queue="aside")
    stage.count(Move.COMPLETE, worker="w2", task="rare", queue="mail")
    await stage.publish()
    parts = stage.backend.run(stage.verbs.records(Kind.TALLY))
    assert [read_rollup(part).named for part in parts] == [Named(tasks=frozenset({"rare"})), UNNAMED]
    assert [b"named" in part.body for part in parts] == [True, False]


def wide(pairs: int) -> dict[tuple[str, str], list[int]]:
    """Return counts with histograms as wide as real ones are."""
    counts = {}
    for number in range(pairs):
        counts["default", f"shop.tasks.send_{number}"] = each = new_count()
        each[COMPLETED] = pairs - number
        each[RUN + 5 : RUN + 45] = each[LAG + 3 : LAG + 43] = [12] * 40
        each[LONGEST_RUN:] = [123_456_789, 98_765_432]
    return counts


def size(rows) -> int:
    return len(msgspec.json.encode(rows))


def test_as_many_pairs_are_told_as_fit():
    """Not half of them, where all are just too many."""
    counts = wide(PAIRS - 1)
    rows = to_rows(counts)
    assert ROWS_LIMIT - 3 * size(rows[0]) < size(rows) <= ROWS_LIMIT
    assert [row.task for row in rows[:-1]] == [task for _, task in counts][: len(rows) - 1]
    assert (rows[-1].queue, rows[-1].task) == OTHER
    again = {}
    add_rows(again, rows)
    assert sum(each[COMPLETED] for each in again.values()) == sum(each[COMPLETED] for each in counts.values())


def test_names_without_end_fit_as_well():
    """Somebody names more than a record holds: the limit stands, and the sum is right."""
    counts = wide(2 * PAIRS)
    rows = to_rows(counts, Named(frozenset({"default"}), frozenset(task for _, task in counts)))
    assert size(rows) <= ROWS_LIMIT
    assert sum(row.completed for row in rows) == sum(each[COMPLETED] for each in counts.values())


def test_a_crowd_in_one_batch_loses_nothing():
    """Room is made between batches, and there is an end of what is told apart."""
    clock = FakeClock()
    tally = Tally(clock)
    for turn in range(3):
        queues = [f"customer-{turn}-{number}" for number in range(CROWDED + 500)]
        count(tally, [ended(clock, queue=queue) for queue in queues for _ in "ab"])
    [counts] = tally.take().values()
    assert len(counts) <= PAIRS + CROWDED + 501
    assert sum(each[COMPLETED] for each in counts.values()) == 3 * 2 * (CROWDED + 500)
