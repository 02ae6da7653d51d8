"""The clock that tests own."""

from datetime import UTC, timedelta

import pytest

from standfast.model.clock import Clock, SystemClock
from standfast.testing import FakeClock


def test_it_stands_still() -> None:
    """Time passes only when a test says so."""
    clock: Clock = FakeClock()
    assert (clock.now(), clock.boot()) == (clock.now(), clock.boot())
    assert clock.now().tzinfo is UTC


def test_advance_moves_both_clocks() -> None:
    """When time passes, it passes everywhere."""
    clock = FakeClock()
    now, boot = clock.now(), clock.boot()
    clock.advance(2.5)
    assert clock.now() - now == timedelta(seconds=2.5)
    assert clock.boot() - boot == 2.5


def test_step_wall_sets_the_wall_clock_alone() -> None:
    """Setting the wall clock, forth or back, does not make time pass."""
    clock = FakeClock()
    now, boot = clock.now(), clock.boot()
    clock.step_wall(-3600)
    assert (clock.now(), clock.boot()) == (now - timedelta(hours=1), boot)


def test_time_does_not_pass_backwards() -> None:
    """The boot clock only grows, in tests too."""
    with pytest.raises(ValueError, match="step_wall"):
        FakeClock().advance(-1)


def test_the_system_clock_is_aware_and_grows() -> None:
    """The real one speaks UTC, and its boot time never goes back."""
    clock: Clock = SystemClock()
    assert clock.now().tzinfo is UTC
    assert clock.boot() <= clock.boot()
