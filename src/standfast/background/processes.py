"""What a process owes to work in its background: to end it at its exit, and to have none of its parent's."""

import atexit
import os
import threading
from typing import Protocol
from weakref import WeakSet

from standfast.errors import BackgroundClosedError
from standfast.lastthreads import keep_spares, use_spares


class Kept(Protocol):
    """The work of one app."""

    def close_at_exit(self) -> None:
        """Close with the process."""
        ...

    def after_fork(self) -> None:
        """Begin anew in a forked process."""
        ...


_ALL: WeakSet[Kept] = WeakSet()
_at_exit = False


def remember(kept: Kept) -> None:
    """See to this one at forks and at the exit, as long as it is there."""
    _ALL.add(kept)


def end_at_exit() -> None:
    """See to it that the exit of this process ends what is remembered.

    Before thread pools are shut down, which Python does before it calls what `atexit` knows: work that is told to
    end may need one to do so, and a store needs one to take in what failed. Hooks of threads are called in reverse
    order, so the one of thread pools has to be there already. Raises BackgroundClosedError where it is too late.
    """
    global _at_exit  # noqa: PLW0603 - a process exits once
    if not _at_exit:
        keep_spares()
        try:
            import concurrent.futures.thread  # noqa: F401, PLC0415 - its import sets that hook

            getattr(threading, "_register_atexit", atexit.register)(_close_all)
        except RuntimeError as error:
            raise BackgroundClosedError(
                "this process is about to end, and nothing begins in its background now: enqueue a job, which"
                " outlives it"
            ) from error
        _at_exit = True


def _close_all() -> None:
    use_spares()
    for kept in list(_ALL):
        kept.close_at_exit()


def _begin_anew() -> None:
    for kept in list(_ALL):
        kept.after_fork()


os.register_at_fork(after_in_child=_begin_anew)
