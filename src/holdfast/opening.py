"""The lock under which apps open their stores. A fork waits for it."""

import os
from threading import RLock, get_ident

FORK_PATIENCE = 5.0


class Opening:
    """One lock for a process.

    To open a store is to import it, and a child forked meanwhile would wait for ever for the thread that does: for
    our lock, or for Python's lock of the module.
    """

    def __init__(self) -> None:
        self._begin()

    def before_fork(self) -> None:
        """Wait until nobody opens a store, but not for ever."""
        if self.lock.acquire(timeout=FORK_PATIENCE):
            self._forking.append(get_ident())

    def after_in_parent(self) -> None:
        """Let others open their stores again."""
        if get_ident() in self._forking:
            self._forking.remove(get_ident())
            self.lock.release()

    def after_in_child(self) -> None:
        """Begin anew: whoever held the lock is not here."""
        self._begin()

    def _begin(self) -> None:
        self.lock = RLock()
        self._forking = list[int]()


OPENING = Opening()
os.register_at_fork(
    before=OPENING.before_fork, after_in_parent=OPENING.after_in_parent, after_in_child=OPENING.after_in_child
)
