"""How objectives stand is what the figures say."""

import msgspec
import pytest

from figures_stage import Stage
from standfast.model.alerts import Objective
from standfast.model.concurrency import run_without_loop
from standfast.model.records import Change, Kind
from standfast.model.states import Move
from standfast.observe.burn_rates import Standing, budget, burn, percent, promise, read_burns, read_standings
from standfast.observe.catalogue import published_objectives
from standfast.stores.verb import run_procedure

SUCCEEDS = Objective(name="mail", target=0.9, task="send")
STARTS = Objective(name="soon", target=0.9, queue="mail", start_within=1.0)


@pytest.fixture
def stage():
    return Stage()


def standing(stage: Stage, objective: Objective) -> Standing:
    run_without_loop(stage.publish())
    stage.fold()
    [found] = run_procedure(stage.backend.run, read_standings(stage.verbs, [objective]))
    return found


def test_the_ends_of_jobs_count(stage):
    """Completed ones are good, dead ones bad; what is tried again, given back or cancelled is neither."""
    stage.count(*[Move.COMPLETE] * 38, Move.DIE, Move.DIE, *[Move.RETRY] * 7, Move.CANCEL, Move.SNOOZE)
    stage.count(*[Move.DIE] * 5, task="print")
    found = standing(stage, SUCCEEDS)
    assert (found.good, found.bad, found.share) == (38, 2, 0.95)
    assert found.budget_left == 0.5
    assert found.is_kept
    assert found.burns == {window: pytest.approx(0.5) for window in ("5m", "30m", "1h", "6h")}


def test_a_queue_is_all_its_tasks(stage):
    """And nothing of another."""
    stage.count(Move.COMPLETE, task="send")
    stage.count(Move.DIE, task="print")
    stage.count(Move.DIE, queue="paper")
    found = standing(stage, Objective(name="mail", target=0.5, queue="mail"))
    assert (found.good, found.bad) == (1, 1)
    assert found.budget_left == 0
    assert found.is_kept


def test_a_budget_is_overdrawn(stage):
    """Half is bad, where a tenth may be."""
    stage.count(Move.COMPLETE, Move.DIE)
    found = standing(stage, SUCCEEDS)
    assert found.budget_left == -4
    assert not found.is_kept
    assert found.fast == found.slow == pytest.approx(5)
    assert budget(found.budget_left) == "overdrawn by 400 %"


def test_nothing_has_happened(stage):
    """Then all of the budget is left and nothing burns."""
    found = standing(stage, SUCCEEDS)
    assert (found.share, found.budget_left, found.fast, found.slow) == (None, 1.0, 0.0, 0.0)
    assert run_procedure(stage.backend.run, read_standings(stage.verbs, [])) == ()
    assert run_procedure(stage.backend.run, read_burns(stage.verbs, [])) == {}


def test_every_start_counts(stage):
    """Whatever became of it; late is what began after the bound."""
    stage.count(Move.COMPLETE, Move.RETRY, Move.DIE, late=0.01)
    stage.count(Move.COMPLETE, late=5)
    found = standing(stage, STARTS)
    assert (found.good, found.bad) == (3, 1)


def test_what_cannot_be_told_apart_counts_as_late(stage):
    """Figures know lateness by buckets: that in which the bound lies is bad, unless all of a row is within it."""
    stage.count(Move.COMPLETE, late=0.9)
    within = standing(stage, STARTS)
    assert (within.good, within.bad) == (1, 0)
    stage.count(Move.COMPLETE, late=0.1)
    stage.count(Move.COMPLETE, late=1.02)
    beside = standing(stage, STARTS)
    assert (beside.good, beside.bad) == (1, 2)


def test_burns_are_of_the_last_while(stage):
    """What was bad some minutes ago burns no more fast; after six hours not at all; the budget remembers."""
    stage.count(Move.COMPLETE, Move.DIE)
    assert standing(stage, SUCCEEDS).fast == pytest.approx(5)
    stage.clock.advance(8 * 60)
    assert standing(stage, SUCCEEDS).fast == 0
    stage.clock.advance(12 * 60)
    after = standing(stage, SUCCEEDS)
    assert (after.burns["5m"], after.fast) == (0, 0)
    assert after.slow == pytest.approx(5)
    stage.clock.advance(3 * 3600)
    assert standing(stage, SUCCEEDS).slow == 0
    assert standing(stage, SUCCEEDS).burns["6h"] == pytest.approx(5)
    stage.clock.advance(4 * 3600)
    at_last = standing(stage, SUCCEEDS)
    assert set(at_last.burns.values()) == {0}
    assert (at_last.good, at_last.bad) == (1, 1)


def test_only_the_days_of_an_objective_count(stage):
    """What was before is over."""
    stage.count(Move.DIE)
    standing(stage, SUCCEEDS)
    stage.clock.advance(3 * 86_400)
    stage.count(Move.COMPLETE)
    short = Objective(name="short", target=0.9, task="send", over=2)
    assert (standing(stage, short).good, standing(stage, short).bad) == (1, 0)
    assert standing(stage, SUCCEEDS).bad == 1
    both = run_procedure(stage.backend.run, read_standings(stage.verbs, [short, SUCCEEDS]))
    assert [each.bad for each in both] == [0, 1]


def test_burns_alone_are_the_same(stage):
    """They cost less, and say what the standings say."""
    stage.count(Move.COMPLETE, Move.DIE)
    found = standing(stage, SUCCEEDS)
    burns = run_procedure(stage.backend.run, read_burns(stage.verbs, [SUCCEEDS]))
    assert burns == {"mail": (found.fast, found.slow)}
    assert found.fast > 0


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0.995, "99.5 %"),
        (1.0, "100 %"),
        (0.0, "0 %"),
        (0.9999999, "> 99.999 %"),
        (1e-9, "< 0.001 %"),
        (0.1, "10 %"),
    ],
)
def test_shares_in_words(share, words):
    """What is not all is never said to be."""
    assert percent(share) == words


@pytest.mark.parametrize(
    ("share", "words"), [(0.0004, "< 0.1 %"), (0.9996, "> 99.9 %"), (0.5, "50 %"), (1.0, "100 %")]
)
def test_with_fewer_digits_a_bound_is_no_closer(share, words):
    """Of a budget 0.04 % may be left, which is more than a thousandth of a percent."""
    assert percent(share, 1) == words


def test_promises_in_words():
    """One line each."""
    assert promise(SUCCEEDS) == "90 % of task send succeed, over 28 d"
    assert promise(STARTS) == "90 % of queue mail start within 1 s, over 28 d"
    assert [burn(rate) for rate in (0.0, 14.44, 1234.5)] == ["0.0×", "14.4×", "1,234×"]


PUBLISHED = {
    "release": "1",
    "host": "h",
    "standfast": "0.1",
    "app": "shop",
    "published_at": "2026-01-01T00:00:00Z",
    "objectives": [],
}
SOUND = {"name": "mail", "target": 0.9, "task": "send"}


@pytest.mark.parametrize(
    "odd",
    [
        {"published_at": "2026-01-01T00:00:00"},
        {"objectives": [SOUND | {"name": "b", "target": 1.0}]},
        {"objectives": [SOUND | {"name": "b", "over": 1_000_000_000}]},
        {"objectives": [SOUND | {"name": "b", "start_within": -1.0}]},
    ],
)
def test_what_is_published_and_makes_no_sense_is_left_out(stage, odd):
    """Something damaged or hostile wrote it, beside others that count as ever."""
    said = {"a": PUBLISHED | {"objectives": [SOUND]}, "b": PUBLISHED | {"app": "other"} | odd}
    changes = [Change(Kind.CATALOGUE, name, 0, name, msgspec.json.encode(body)) for name, body in said.items()]
    stage.backend.run(stage.verbs.change_records(changes))
    assert [each.name for each in run_procedure(stage.backend.run, published_objectives(stage.verbs))] == ["mail"]
