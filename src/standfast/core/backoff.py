"""How long to wait before the next attempt. Pure: the random source is an argument.

delay = min(shape(attempt), max_delay − base) + random(0, base)

The cap leaves room for the jitter, so that a thousand capped jobs still spread instead of marching in step.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Protocol

from standfast.errors import ConfigurationError


class Backoff(Protocol):
    """Decides the wait after the nth charged attempt (1 for the first failure)."""

    def delay(self, attempt: int, random: Random) -> timedelta:
        """Return how long to wait before the next attempt."""
        ...


def _check(base: float, max_delay: float) -> None:
    if not (_is_number(base) and math.isfinite(base) and base >= 0):
        raise ConfigurationError(f"backoff base must be a number of seconds, zero or more, not {base!r}")
    if not (_is_number(max_delay) and max_delay >= base):
        raise ConfigurationError(f"backoff max_delay ({max_delay!r} s) must not be below base ({base!r} s)")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _jittered(wait: float, base: float, max_delay: float, random: Random) -> timedelta:
    return timedelta(seconds=min(wait, max_delay - base) + random.uniform(0, base))


@dataclass(frozen=True, slots=True)
class Constant:
    """The same wait each time, plus up to as much again of jitter: `base` to 2 × `base` seconds."""

    base: float = 5.0

    def __post_init__(self) -> None:
        _check(self.base, self.base)

    def delay(self, attempt: int, random: Random) -> timedelta:  # noqa: ARG002 - the port's shape
        """Return how long to wait before the next attempt."""
        return _jittered(self.base, self.base, 2 * self.base, random)


@dataclass(frozen=True, slots=True)
class Linear:
    """Waits of base, 2 × base, 3 × base … seconds, plus jitter, up to `max_delay`."""

    base: float = 5.0
    max_delay: float = 3600.0

    def __post_init__(self) -> None:
        _check(self.base, self.max_delay)

    def delay(self, attempt: int, random: Random) -> timedelta:
        """Return how long to wait before the next attempt."""
        return _jittered(self.base * attempt, self.base, self.max_delay, random)


@dataclass(frozen=True, slots=True)
class Exponential:
    """Waits of base × factor^attempt seconds, plus jitter, up to `max_delay`. The default."""

    base: float = 1.0
    factor: float = 2.0
    max_delay: float = 3600.0

    def __post_init__(self) -> None:
        _check(self.base, self.max_delay)
        if not (_is_number(self.factor) and self.factor >= 1):
            raise ConfigurationError(f"backoff factor must be 1 or more, not {self.factor!r}")

    def delay(self, attempt: int, random: Random) -> timedelta:
        """Return how long to wait before the next attempt."""
        try:
            wait = self.base * self.factor**attempt
        except OverflowError:
            wait = self.max_delay
        return _jittered(wait, self.base, self.max_delay, random)


@dataclass(frozen=True, slots=True)
class Custom:
    """Waits that a function of the attempt number decides, in seconds or as a timedelta; no jitter added."""

    wait: Callable[[int], float | timedelta]

    def __repr__(self) -> str:
        return f"Custom({getattr(self.wait, '__qualname__', self.wait)})"

    def delay(self, attempt: int, random: Random) -> timedelta:  # noqa: ARG002 - the port's shape
        """Return how long to wait before the next attempt."""
        wait = self.wait(attempt)
        return wait if isinstance(wait, timedelta) else timedelta(seconds=wait)
