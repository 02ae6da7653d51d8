"""`standfast objectives`: how objectives stand, from the store alone."""

import re

import pytest
from cli_world import answer
from msgspec.structs import replace

from figures_stage import Stage
from standfast.model.alerts import Objective
from standfast.model.clock import SystemClock
from standfast.model.concurrency import run_without_loop
from standfast.model.states import Move
from standfast.observe.catalogue import Catalogue, publish
from standfast.stores.verb import run_procedure

SHOP = Catalogue(
    "shop",
    "1",
    SystemClock().now(),
    "web-01",
    "0.1.0",
    objectives=(
        Objective(name="mail", target=0.9, task="send"),
        Objective(name="soon", target=0.99, queue="mail", start_within=1.0, over=7),
    ),
)


@pytest.fixture
def told(world):
    """Give a store in which an app has published what it promises, and a worker what it did."""
    run_procedure(world.backend.run, publish(world.verbs, SHOP))
    stage = Stage(world.backend, SystemClock())
    stage.count(*[Move.COMPLETE] * 19, Move.DIE, late=0.01)
    stage.count(*[Move.COMPLETE] * 20, task="print", late=30)
    run_without_loop(stage.publish())


@pytest.mark.usefixtures("told")
def test_for_programs(standfast):
    """All that is known of each."""
    mail, soon = answer(standfast("objectives", "--json"))
    assert (mail["name"], mail["task"], mail["target"], mail["over"]) == ("mail", "send", 0.9, 28)
    assert (mail["good"], mail["bad"], mail["share"], mail["budget_left"]) == (19, 1, 0.95, 0.5)
    assert (mail["kept"], soon["kept"]) == (True, False)
    assert (soon["good"], soon["bad"]) == (20, 20)
    assert [burn["over"] for burn in soon["burns"]] == [300, 1800, 3600, 21600]
    assert soon["burn_fast"] == pytest.approx(50)


@pytest.mark.usefixtures("told")
def test_for_people(standfast):
    """A line each, with a bar of what is left."""
    _, _, mail, soon = standfast("objectives").stdout.splitlines()
    assert re.fullmatch(r"mail +90 % of task send succeed, over 28 d +19 +1 +95 % +50 % +█{5}░{5} .*0\.5×.*", mail)
    assert re.search(r"start within 1 s, over 7 d +20 +20 +50 % +overdrawn by 4,900 % +░{10} +50\.0× +50\.0×", soon)


def test_what_is_declared_no_more_is_none(standfast, world):
    """Of each app the newest release counts."""
    run_procedure(world.backend.run, publish(world.verbs, SHOP))
    newer = replace(SHOP, release="2", published_at=SystemClock().now(), objectives=SHOP.objectives[1:])
    run_procedure(world.backend.run, publish(world.verbs, newer))
    assert [each["name"] for each in answer(standfast("objectives", "--json"))] == ["soon"]


def test_none(standfast):
    """It says how to declare one."""
    assert "app.objective" in standfast("objectives").stdout
    assert answer(standfast("objectives", "--json")) == []
