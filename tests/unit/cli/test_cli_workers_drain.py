"""`workers drain`: all of them only after somebody has agreed. Real supervisors drain in the acceptance tests."""

import pytest
from cli_world import WORKER, answer

from standfast.model.records import Kind

USAGE = 2


@pytest.fixture
def orders(world):
    return lambda: len(world.do(world.verbs.records(Kind.ORDER)))


def test_all_are_drained_after_asking(standfast, orders):
    """Who says no, or nothing, has changed nothing."""
    question = "Drain 1 worker for good? [y/N]: "
    result = standfast("workers", "drain", "--all", "--no-wait", input="n\n")
    assert (result.exit_code, question in result.stderr, orders()) == (1, True, 0)
    nobody = standfast("workers", "drain", "--all", "--no-wait")
    assert (nobody.exit_code, "nobody is there to confirm; add --yes" in nobody.stderr, orders()) == (
        USAGE,
        True,
        0,
    )
    result = standfast("workers", "drain", "--all", "--no-wait", input="y\n")
    assert (result.exit_code, orders()) == (0, 1)
    assert "1 worker will be drained, at once" in result.stdout


def test_nobody_is_asked_with_yes_or_about_those_who_are_named(standfast, orders):
    assert answer(standfast("workers", "drain", "--all", "--yes", "--no-wait", "--json"))[0]["worker"] == WORKER
    assert standfast("workers", "drain", WORKER, "--no-wait").exit_code == 0
    assert orders() == 2


def test_to_replace_them_takes_nothing_away_and_asks_nothing(standfast, orders):
    assert standfast("workers", "recycle", "--all", "--no-wait").exit_code == 0
    assert orders() == 1
