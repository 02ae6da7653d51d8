"""No connection crosses a fork.

SQLite keeps its account of locks and shared memory per process, and the kernel keeps the locks. A forked child
inherits the first without the second: it takes for locked, or for its own, what is neither, and loses what it
commits. So who uses a connection does it inside the gate, and holds no lock in there that a fork would need:

    use:   GATE.run(work)
    fork:  shut the gate ─► wait until nobody is inside ─► close every connection ─► fork ─► open the gate
                                                                                      └─► a new gate in the child

A signal handler may raise in any function written in Python, also in `__enter__`, in `__exit__` and in the handlers
of a fork. So no such function counts who is inside: each thread holds a lock of its own while it is inside, and
functions of C alone shut and open the gate.

Whoever needs a connection later finds it closed and opens another (opening.py). `subprocess` does not run the
handlers of forks and does not need them: it replaces the child's program at once.

A fork always goes on. If a connection is in use after all, because the forking thread itself was interrupted inside
the gate, a call takes too long, or foreign code forked without the handlers, then the child cannot use this store,
and is told so.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar
from weakref import WeakSet

from standfast.errors import StoreError
from standfast.store.sqlite.translate import BUSY_TIMEOUT

FORK_PATIENCE = 2 * BUSY_TIMEOUT
"""Seconds that a fork waits for the calls that run; each of them waits for a lock a good deal shorter."""

_LOOK_EVERY = 0.0005

T = TypeVar("T")

Identity = tuple[tuple[int, int] | None, ...]
"""Which files a name means at a time: device and inode of each."""


class Connection(sqlite3.Connection):
    """A connection that knows whether it is open, and to which files. Others may close it while nobody uses it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.is_open = False
        self.leads_to: Identity = ()
        GATE.connections.add(self)  # before it is open, so that none is open and unknown
        super().__init__(*args, **kwargs)
        self.is_open = True

    def close(self) -> None:
        """Close it; repeated, do nothing."""
        self.is_open = False
        super().close()
        GATE.connections.discard(self)


class _Own(threading.local):
    """What a thread knows of itself."""

    forks = False
    has_shut = False


class Gate:
    """Who is inside uses connections. A thread may enter again while it is inside."""

    def __init__(self) -> None:
        self._crossed: list[Connection] = []
        self._inside: dict[int, threading.Lock] = {}
        self._forks: list[None] = []
        self._own = _Own()
        self._begin()

    def run(self, work: Callable[[], T]) -> T:
        """Do some work inside. It waits for forks, but for one of this very thread."""
        me = threading.get_ident()
        inside = self._inside.get(me) or self._inside.setdefault(me, threading.Lock())
        if inside.locked():  # by this thread: nobody else takes it
            return work()
        while True:
            with inside:
                enters = not self._forks or self._own.forks
                if enters:
                    answer = work()  # and no `return`, which would leave the block before its lock is let go of
            if enters:
                return answer
            time.sleep(_LOOK_EVERY)

    @property
    def is_shut(self) -> bool:
        """Whether to enter now would mean to wait for a fork."""
        return bool(self._forks)

    def refuse_crossed(self) -> None:
        """Raise StoreError if connections of a parent process came into this one."""
        if self._pid != os.getpid():  # forked past all handlers, or a handler was interrupted
            self.after_in_child()
        if self._crossed:
            raise StoreError(
                "this process was forked in the middle of a call to the SQLite store, and cannot use it: fork where"
                " no call is under way, or close the app before"
            )

    def watch_forks(self) -> None:
        """Have this gate shut before each fork, and opened after it."""
        own = partial(setattr, self._own)
        # Called in reverse order. Twice, as a signal handler may raise in the first call, which a fork ignores.
        os.register_at_fork(before=self.before_fork)
        os.register_at_fork(before=self.before_fork)
        os.register_at_fork(before=partial(own, "has_shut", False))
        os.register_at_fork(before=partial(own, "forks", True), after_in_parent=partial(own, "forks", False))
        os.register_at_fork(before=partial(self._forks.append, None), after_in_parent=self._forks.pop)
        os.register_at_fork(after_in_child=partial(own, "forks", False))
        os.register_at_fork(after_in_child=self._forks.clear)
        os.register_at_fork(after_in_child=self._inside.clear)
        os.register_at_fork(after_in_child=self.after_in_child)

    def before_fork(self) -> None:
        """Wait for those inside, and close what is open."""
        if self._own.has_shut:
            return
        if self._is_left():
            # One at a time, so that of two forks none happens while the other closes.
            with self._closing:
                for connection in list(self.connections):
                    with suppress(sqlite3.ProgrammingError):  # it was never open
                        connection.close()
                    self.connections.discard(connection)
        self._own.has_shut = True

    def after_in_child(self) -> None:
        """Begin anew. What crossed is kept for ever: to close it would harm the parent's own connections."""
        self._crossed += list(self.connections)
        self._begin()

    def _is_left(self) -> bool:
        """Wait until nobody is inside. Who is inside itself does not: the others may be waiting for this thread."""
        give_up_at = time.monotonic() + FORK_PATIENCE
        while any(inside.locked() for inside in list(self._inside.values())):
            own = self._inside.get(threading.get_ident())
            if (own is not None and own.locked()) or time.monotonic() >= give_up_at:
                return False
            time.sleep(_LOOK_EVERY)
        return True

    def _begin(self) -> None:
        self._inside.clear()
        self._forks.clear()
        self._closing = threading.Lock()
        self.connections = WeakSet[Connection]()
        self._pid = os.getpid()


GATE = Gate()
GATE.watch_forks()
