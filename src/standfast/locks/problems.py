"""What is wrong with a lock that is asked for, in words that name the option. Pure."""

from collections.abc import Iterator
from typing import Any

from standfast.errors import ConfigurationError
from standfast.locks.roll import LONGEST
from standfast.policy.problems import name_problems, refuse_any
from standfast.policy.reading import as_seconds, is_finite, is_int

SHORTEST_TTL = 0.1
LONGEST_TTL = LONGEST.total_seconds() / 2
MOST_PLACES = 1000
"""So many holders one semaphore has at most: they are all in one record, which each change writes."""


def refuse_bad_lock(name: Any, places: Any, ttl: Any, timeout: Any) -> None:
    """Raise ConfigurationError that names all that is wrong."""
    refuse_any(_problems(name, places, as_seconds(ttl), as_seconds(timeout)))


def read_timeout(timeout: Any) -> float | None:
    """Return seconds to wait, None for ever. Raises ConfigurationError."""
    seconds = as_seconds(timeout)
    refuse_any(_timeout_problems(seconds))
    return None if seconds is None else float(seconds)


def no_sessions(store: str) -> ConfigurationError:
    """Return the error for a session lock on a store without sessions."""
    return ConfigurationError(
        f"session=True needs a postgresql:// store, and this one is {store}: leave it out, and the lock"
        " ends by its ttl"
    )


def _problems(name: Any, places: Any, ttl: Any, timeout: Any) -> Iterator[str]:
    yield from name_problems("lock", name)
    if not is_int(places) or not 1 <= places <= MOST_PLACES:
        yield f"a semaphore must have from 1 to {MOST_PLACES} places, not {places!r:.80}"
    if not is_finite(ttl) or not SHORTEST_TTL <= ttl <= LONGEST_TTL:
        yield (
            f"ttl must be from {SHORTEST_TTL} to {LONGEST_TTL:.0f} seconds, not {ttl!r:.80}: a lock is renewed as"
            " long as its holder lives, so some 30 seconds do for a block of any length"
        )
    yield from _timeout_problems(timeout)


def _timeout_problems(timeout: Any) -> Iterator[str]:
    if timeout is not None and not (is_finite(timeout) and timeout >= 0):
        yield f"timeout must be seconds, 0 to try once, or None to wait for ever, not {timeout!r:.80}"
