"""No connection crosses a fork.

SQLite keeps its account of locks and shared memory per process, and the kernel keeps the locks. A forked child
inherits the first without the second: it takes for locked, or for its own, what is neither, and loses what it
commits. So who uses a connection does it inside the gate, and holds no lock in there that a fork would need:

    use:   with GATE: …
    fork:  shut the gate ─► wait until nobody is inside ─► close every connection ─► fork ─► open the gate
                                                                                      └─► a new gate in the child

Whoever needs a connection later finds it closed and opens another (opening.py). `subprocess` does not run the
handlers of forks and does not need them: it replaces the child's program at once.

A fork always goes on. If a connection is in use after all, because the forking thread itself was interrupted inside
the gate, a call takes too long, or foreign code forked without the handlers, then the child cannot use this store,
and is told so.
"""

import os
import sqlite3
import threading
from typing import Any
from weakref import WeakSet

from holdfast.errors import StoreError
from holdfast.store.sqlite.translate import BUSY_TIMEOUT

FORK_PATIENCE = 2 * BUSY_TIMEOUT
"""Seconds that a fork waits for the calls that run; each of them waits for a lock a good deal shorter."""

Identity = tuple[tuple[int, int] | None, ...]
"""Which files a name means at a time: device and inode of each."""


class Connection(sqlite3.Connection):
    """A connection that knows whether it is open, and to which files. Others may close it while nobody uses it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.is_open = False
        self.leads_to: Identity = ()
        super().__init__(*args, **kwargs)
        self.is_open = True
        GATE.connections.add(self)

    def close(self) -> None:
        """Close it; repeated, do nothing."""
        super().close()
        self.is_open = False
        GATE.connections.discard(self)


class Gate:
    """Who is inside uses connections. A thread may enter again while it is inside."""

    def __init__(self) -> None:
        self._crossed: list[Connection] = []
        self._begin()

    def __enter__(self) -> None:
        me = threading.get_ident()
        with self._lock:
            # Neither who is inside already nor a forking thread itself may wait: the fork would wait for them.
            if self._forking and not (me in self._inside or me in self._forking):
                self._changed.wait_for(lambda: not self._forking)
            _count_up(self._inside, me)

    def __exit__(self, *_: object) -> None:
        me = threading.get_ident()
        with self._lock:
            _count_down(self._inside, me)
            if self._forking:
                self._changed.notify_all()

    @property
    def is_shut(self) -> bool:
        """Whether to enter now would mean to wait for a fork."""
        return bool(self._forking)

    def refuse_crossed(self) -> None:
        """Raise StoreError if connections of a parent process came into this one."""
        if self._pid != os.getpid():  # forked past all handlers
            self.after_in_child()
        if self._crossed:
            raise StoreError(
                "this process was forked in the middle of a call to the SQLite store, and cannot use it: fork where"
                " no call is under way, or close the app before"
            )

    def before_fork(self) -> None:
        """Let nobody in, wait for those inside, and close what is open."""
        me = threading.get_ident()
        with self._lock:
            _count_up(self._forking, me)
            if me not in self._inside:  # or else the others may be waiting for this thread
                self._changed.wait_for(lambda: not self._inside, FORK_PATIENCE)
            if not self._inside:
                # Under the lock, so that of two forks none happens while the other closes.
                for connection in list(self.connections):
                    connection.close()

    def after_in_parent(self) -> None:
        """Go on."""
        with self._lock:
            _count_down(self._forking, threading.get_ident())
            self._changed.notify_all()

    def after_in_child(self) -> None:
        """Begin anew. What crossed is kept for ever: to close it would harm the parent's own connections."""
        self._crossed += list(self.connections)
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.RLock()  # a signal may be handled, and its handler fork, while this thread has it
        self._changed = threading.Condition(self._lock)
        self._inside: dict[int, int] = {}
        self._forking: dict[int, int] = {}
        self.connections = WeakSet[Connection]()


def _count_up(counts: dict[int, int], thread: int) -> None:
    counts[thread] = counts.get(thread, 0) + 1


def _count_down(counts: dict[int, int], thread: int) -> None:
    count = counts.pop(thread, 0) - 1
    if count > 0:
        counts[thread] = count


GATE = Gate()
os.register_at_fork(
    before=GATE.before_fork, after_in_parent=GATE.after_in_parent, after_in_child=GATE.after_in_child
)
