"""How long a piece of work may go on: what it can ask about that, and sleeps that end when it should end."""

from abc import ABC, abstractmethod
from typing import Any

from standfast.awaiting import must_not_block
from standfast.codec.types import Supplied
from standfast.errors import ArgumentsError
from standfast.policy import MAX_DELAY, Seconds
from standfast.policy.reading import as_seconds, is_finite

LONGEST_SLEEP = MAX_DELAY.total_seconds()


class Life(Supplied, ABC):
    """What a function gets that annotates a parameter with it: word of when it should end.

    Work in the background has one of its own; in a job it is the `Context`. So one function can serve as both.
    """

    @property
    @abstractmethod
    def cancelled(self) -> bool:
        """True once the work should end."""

    @abstractmethod
    def raise_if_cancelled(self) -> None:
        """End the work here if it should end."""

    def sleep(self, seconds: Seconds) -> None:
        """Sleep here, for seconds or a timedelta; once the work should end, wake at once and end it here.

        It takes its thread, or the slot of its job, all the while. In async code `asleep`.
        """
        must_not_block("sleep(…)", "await asleep(…)", ArgumentsError)
        span = _read(seconds)
        self.raise_if_cancelled()
        self._nap(span)
        self.raise_if_cancelled()

    async def asleep(self, seconds: Seconds) -> None:
        """Sleep as `sleep` does, and let the event loop go on meanwhile."""
        span = _read(seconds)
        self.raise_if_cancelled()
        await self._anap(span)
        self.raise_if_cancelled()

    @abstractmethod
    def _nap(self, seconds: float) -> None:
        """Block this thread for so long, or until the work should end."""

    @abstractmethod
    async def _anap(self, seconds: float) -> None:
        """Await that."""


def _read(seconds: Any) -> float:
    span = as_seconds(seconds)
    if not (is_finite(span) and 0 <= span <= LONGEST_SLEEP):
        raise ArgumentsError(
            f"a sleep takes seconds or a timedelta, from 0 to a hundred years, not {seconds!r:.80}"
        )
    return float(span)
