"""A child that cannot be killed is dropped: nobody beats for it, another takes its place, nothing is given back."""

import asyncio

import pytest
from stand_in import adopted_child

from holdfast.core.crash import DeathKind
from holdfast.supervisor.child import Exit, Phase

pytestmark = pytest.mark.virtual_time

GONE = Exit(255, unseen=True)


async def test_a_dropped_child_is_replaced_and_not_beaten_for():
    child = adopted_child(Phase.WORKING)
    assert child.beaten_for
    child.kill()
    assert not child.beaten_for
    assert child.replace.is_set()
    assert not child.gone.is_set()


async def test_one_that_never_began_stays_so():
    """It is not in the store, and is not to be buried there."""
    child = adopted_child(Phase.STARTING)
    child.kill()
    assert child.phase is Phase.STARTING


async def test_a_grace_that_is_over_drops_it():
    child = adopted_child(Phase.WORKING)
    child.ask_to_leave(grace=5.0)
    assert child.beaten_for, "it may still end in time"
    await asyncio.sleep(14.0)
    assert child.dropped
    assert child.death(GONE).kind is DeathKind.STOPPED


async def test_a_host_that_vanishes_after_it_was_asked_to_leave_has_left():
    """How it ended nobody knows; that it had to is known. Unasked, it is a crash, and so is one that hung."""
    asked, unasked, hung = (adopted_child(Phase.WORKING) for _ in range(3))
    asked.ask_to_leave(grace=5.0)
    hung.portrait = {}
    hung.kill()
    assert asked.death(GONE).kind is DeathKind.STOPPED
    assert unasked.death(GONE).kind is DeathKind.CRASHED
    assert hung.death(GONE).kind is DeathKind.CRASHED
