"""How long to wait before the next attempt. Pure: the random source is an argument.

delay = min(shape(attempt), max_delay − base) + random(0, base)

The cap leaves room for the jitter, so that a thousand capped jobs still spread instead of marching in step.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Protocol

from standfast.errors import ConfigurationError, StoreFullError, StoreUnavailableError


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


@dataclass(frozen=True, slots=True)
class Retries:
    """At most `attempts` tries, with waits as `backoff` says; with `on`, after such exceptions only."""

    attempts: int = 3
    backoff: Backoff = field(default_factory=Exponential)
    on: type[Exception] | tuple[type[Exception], ...] = Exception

    def __post_init__(self) -> None:
        if not isinstance(self.attempts, int) or isinstance(self.attempts, bool) or self.attempts < 1:
            raise ConfigurationError(f"attempts must be an integer, 1 (no retries) or more, not {self.attempts!r}")
        if isinstance(self.backoff, type) or not callable(getattr(self.backoff, "delay", None)):
            raise ConfigurationError(f"backoff must be such as Exponential(base=1), not {self.backoff!r}")
        kinds = self.on if isinstance(self.on, tuple) else (self.on,)
        if not kinds or not all(isinstance(each, type) and issubclass(each, Exception) for each in kinds):
            raise ConfigurationError(f"on must be an exception type or a tuple of them, not {self.on!r}")

    def wait_after(self, tries: int, error: Exception, random: Random) -> timedelta | None:
        """Return how long to wait after so many tries, the last of which raised this; None to give up."""
        if tries >= self.attempts or not isinstance(error, self.on):
            return None
        return max(self.backoff.delay(tries, random), timedelta())


ONCE = Retries(attempts=1)
"""No second try."""


TRANSIENT_ERRORS = (StoreUnavailableError, StoreFullError)
"""Errors after which the same call may succeed."""

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.0


class RetryDelays:
    """The pauses between tries: each about twice as long as the one before, none like anybody else's.

    All who use a store lose it at the same moment: without the jitter they would come back in step, each time.
    """

    def __init__(self, random: Random, longest: float = LONGEST_PAUSE) -> None:
        self._random = random
        self._longest = longest
        self._next = FIRST_PAUSE

    def next(self) -> float:
        """Return for how many seconds to pause now."""
        pause = min(self._next, self._longest)
        self._next = pause * 2
        return pause * self._random.uniform(0.5, 1.0)

    def reset(self) -> None:
        """Begin with short ones again: there was an answer."""
        self._next = FIRST_PAUSE


class RetryDeadline:
    """How long to go on trying while the store is away: `seconds` from the first failure on."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ends_at: float | None = None
        self._pauses = RetryDelays(Random())  # noqa: S311 - jitter

    def pause_after(self, error: Exception) -> float:
        """Return for how many seconds to pause before the next try. Raises the error once the time is over."""
        now = time.monotonic()
        if self._ends_at is None:
            self._ends_at = now + self._seconds
        left = self._ends_at - now
        if left <= 0:
            raise error
        return min(self._pauses.next(), left)

    def reset(self) -> None:
        """Begin anew: there was an answer, and the next failure is another one."""
        self._ends_at = None
        self._pauses.reset()
