"""Waits between attempts: the shape, the cap, the jitter, and what is refused."""

import math
from datetime import timedelta
from random import Random

import pytest

from standfast.errors import ConfigurationError
from standfast.model.backoff import Backoff, Constant, Custom, Exponential, Linear

SHAPED: list[Backoff] = [Constant(3), Linear(3, 100), Exponential(3, 2, 100)]


class _Fixed(Random):
    """A source that always gives the same share of the range."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self._share = share

    def uniform(self, a: float, b: float) -> float:
        return a + (b - a) * self._share


def _seconds(backoff: Backoff, attempts: range, share: float = 0.0) -> list[float]:
    return [backoff.delay(attempt, _Fixed(share)).total_seconds() for attempt in attempts]


def test_constant_stays() -> None:
    """The same wait each time."""
    assert _seconds(Constant(5), range(1, 4)) == [5, 5, 5]


def test_linear_grows_by_base() -> None:
    """One base more each time, up to the cap less the room for jitter."""
    assert _seconds(Linear(10, 45), range(1, 6)) == [10, 20, 30, 35, 35]


def test_exponential_multiplies() -> None:
    """base × factor^attempt, up to the cap less the room for jitter."""
    assert _seconds(Exponential(1, 2, 20), range(1, 7)) == [2, 4, 8, 16, 19, 19]


@pytest.mark.parametrize("backoff", SHAPED)
def test_jitter_adds_up_to_base(backoff: Backoff) -> None:
    """Half the range of the random source is half a base more."""
    plain, jittered = (_seconds(backoff, range(1, 4), share) for share in (0.0, 0.5))
    assert [late - early for early, late in zip(plain, jittered, strict=True)] == [1.5, 1.5, 1.5]


@pytest.mark.parametrize("backoff", [Linear(3, 100), Exponential(3, 2, 100)])
def test_the_cap_leaves_the_jitter(backoff: Backoff) -> None:
    """Capped waits still spread over a whole base and never pass the cap."""
    random = Random(1)
    waits = [backoff.delay(99, random).total_seconds() for _ in range(1000)]
    assert 97 <= min(waits) < 97.1
    assert 99.9 < max(waits) <= 100


@pytest.mark.parametrize("backoff", SHAPED)
def test_seeded_waits_repeat(backoff: Backoff) -> None:
    """The same seed gives the same waits, another seed others."""
    one, same, other = ([backoff.delay(1, random) for _ in range(5)] for random in map(Random, (7, 7, 8)))
    assert one == same
    assert one != other


def test_an_absurd_attempt_is_capped() -> None:
    """A number too large for a float is a capped wait, not an error."""
    assert Exponential(1, 2, 3600).delay(10**6, _Fixed(0)) == timedelta(seconds=3599)


@pytest.mark.parametrize("wait", [2, 2.0, timedelta(seconds=2)])
def test_custom_is_taken_as_it_is(wait: float | timedelta) -> None:
    """A function decides alone, in seconds or as a span."""
    assert Custom(lambda _: wait).delay(3, _Fixed(1)) == timedelta(seconds=2)
    assert Custom(lambda attempt: attempt * 10).delay(3, _Fixed(1)) == timedelta(seconds=30)
    assert repr(Custom(math.exp)) == "Custom(exp)"


@pytest.mark.parametrize("base", [-1, math.nan, math.inf, "1", timedelta(seconds=1)])
def test_bad_bases_are_refused(base: float) -> None:
    """A base that is no span of time is refused when it is declared, by name."""
    for shape in (Constant, Linear, Exponential):
        with pytest.raises(ConfigurationError, match="base"):
            shape(base)


@pytest.mark.parametrize("shape", [Linear, Exponential])
@pytest.mark.parametrize("max_delay", [4.9, -1, math.nan, "600"])
def test_a_cap_below_base_is_refused(shape: type[Linear | Exponential], max_delay: float) -> None:
    """A cap that leaves no room for the jitter is refused, by name."""
    with pytest.raises(ConfigurationError, match="max_delay"):
        shape(base=5, max_delay=max_delay)


@pytest.mark.parametrize("factor", [0.9, -2, math.nan, "2"])
def test_a_shrinking_factor_is_refused(factor: float) -> None:
    """A factor below one would retry ever faster."""
    with pytest.raises(ConfigurationError, match="factor"):
        Exponential(factor=factor)


def test_zero_waits_are_allowed() -> None:
    """A base of zero is an immediate retry."""
    assert Constant(0).delay(1, Random(1)) == timedelta()
