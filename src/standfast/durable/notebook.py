"""The port by which an attempt reads and writes the memos of its job, in whatever process it runs.

Both ways answer by a future of `concurrent.futures`, so that a handler in a thread may wait for it and a coroutine
may await it. Every member may be used from any thread.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol

from standfast.core.memo import Memo, Save

LastWords = Callable[[], Sequence[Memo]]
"""Tells what is left to write down when an attempt ends."""


class Notebook(Protocol):
    """The memos of one job, under the claim of this attempt."""

    def read(self) -> "Future[Mapping[str, bytes]]":
        """Return the memos by name as the store has them now."""
        ...

    def write(self, *memos: Memo, hurry: bool = True) -> "Future[None]":
        """Write memos down soon, together with what others write; never blocks.

        What is written under a name before an earlier writing of it has left takes its place. The future is done
        once the store has it. It raises LostClaimError where the job is another's by now. Without `hurry` it may
        wait for a moment, so that many writings become one.
        """
        ...

    def at_end(self, last_words: LastWords) -> None:
        """Ask this, too, when the attempt ends, however that comes: what it tells is written before the ending."""
        ...


class OwnNotebook(Notebook, Protocol):
    """A notebook as its process has it in hand when the attempt ends."""

    def take_last_words(self) -> None:
        """Write what is left, by those who have asked to be asked."""
        ...

    def unwritten(self) -> Save | None:
        """Return all that the store is not known to have, to be written with the end of the claim."""
        ...

    def written(self) -> None:
        """Take note that the store has it all."""
        ...


def pending() -> "Future[None]":
    """Return the future of a writing. Who waits for it may give up; nobody can cancel it for the others."""
    answer: Future[None] = Future()
    answer.set_running_or_notify_cancel()
    return answer
