"""Opens connections: how long that may take, and what holds for their sessions."""

import _thread
import math
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar
from weakref import WeakSet, ref

import psycopg
from psycopg.conninfo import conninfo_to_dict

from standfast.errors import ConfigurationError, StoreUnavailableError
from standfast.stores.postgres.readiness import OverdueError
from standfast.stores.postgres.url import Address
from standfast.stores.postgres.wire import Connection, Wire, call

OLDEST_SERVER = 14
"""The first PostgreSQL that will do."""

_SHORTEST_TRY = 2
"""Seconds: libpq gives no server less."""
_IDLE_IN_TRANSACTION = 6
"""So many timeouts may pass in the middle of a transaction before the server ends it: its process is stopped."""

T = TypeVar("T")


def libpq_parameters(address: Address) -> dict[str, Any]:
    """Return what the URL says to libpq. Raises ConfigurationError, without the URL, for what libpq cannot read."""
    try:
        return dict(conninfo_to_dict(address.conninfo))
    except psycopg.ProgrammingError as error:
        raise ConfigurationError(
            f"the PostgreSQL URL of {address.name} cannot be read: {_malformed(str(error))}; write e.g."
            " postgresql://user:password@host:5432/database"
        ) from None


def _malformed(text: str) -> str:
    if unknown := re.search(r'invalid URI query parameter: ("\w+")', text):
        return f"it has the option {unknown[1]}, which is neither ours nor libpq's"
    if unescaped := re.search(r'extra key/value separator "=" in URI query parameter: ("\w+")', text):
        return f"in the value of its option {unescaped[1]} stands a =, which is written as %3D there"
    return "it is malformed"


def open_wire(address: Address, timeout: float, until: float) -> Wire:
    """Open a connection before `until`, a reading of the monotonic clock."""
    parameters = _parameters(address, timeout, until - time.monotonic())
    # In a thread: looking up the name of a host takes as long as the machine's resolver likes.
    connection = _within(until, lambda: Connection.connect(**parameters), Connection.close)
    return Wire(connection, pooled=address.pooled)


def _parameters(address: Address, timeout: float, left: float) -> dict[str, Any]:
    given = libpq_parameters(address)
    patience = max(_SHORTEST_TRY, int(left / address.hosts))
    defaults = {
        "fallback_application_name": "standfast",
        "keepalives_idle": "10",
        "keepalives_interval": "5",
        "keepalives_count": "3",
        "tcp_user_timeout": str(round(timeout * 1000)),
        "connect_timeout": str(patience),
    }
    forced = {"client_encoding": "UTF8", "autocommit": True}
    if not address.pooled:  # a pooler refuses options of a session
        forced["options"] = f"{given.get('options') or ''} {_session(timeout)}".strip()
    return defaults | given | forced


def _session(timeout: float) -> str:
    milliseconds = round(timeout * 1000)
    settings = {
        "default_transaction_isolation": r"read\ committed",
        "jit": "off",
        "plan_cache_mode": "force_generic_plan",
        "lock_timeout": milliseconds * 8 // 10,
        "statement_timeout": milliseconds * 9 // 10,
        "idle_in_transaction_session_timeout": milliseconds * _IDLE_IN_TRANSACTION,
    }
    return " ".join(f"-c {name}={value}" for name, value in settings.items())


def _within(until: float, act: Callable[[], T], undo: Callable[[T], object]) -> T:
    """Return what an act returns, or raise OverdueError; what comes later is undone.

    A signal handler may raise in here and leave the locks of `threading` locked: so nothing of that module is used.
    The wait is for a lock of its own: for an answer a queue of Python 3.11 waits for ever if a signal comes too late.
    """
    answers = SimpleQueue[tuple[T] | BaseException]()
    answered = _thread.allocate_lock()
    answered.acquire()
    given_up: list[bool] = []

    def run() -> None:
        try:
            answers.put((act(),))
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            answers.put(error)
        answered.release()
        if given_up:
            clear_away()

    def clear_away() -> None:
        with suppress(Empty):
            late = answers.get_nowait()  # of the two threads one gets it
            if isinstance(late, tuple):
                undo(late[0])

    _thread.start_new_thread(run, ())
    try:
        answered.acquire(timeout=max(until - time.monotonic(), 0))
        answer = answers.get_nowait()
    except BaseException as error:
        given_up.append(True)
        clear_away()
        if isinstance(error, Empty):
            raise OverdueError from None
        raise
    if isinstance(answer, BaseException):
        raise answer
    return answer[0]


# A few connections, lent to one caller at a time.

CHECK_AFTER = 30.0
"""Seconds of rest after which a connection is asked whether it is still there: firewalls forget idle ones."""

IDLE_FOR = 20.0
"""Seconds of rest after which a connection is let go, unless it is the only one."""

LAST_IDLE_FOR = 300.0
"""The same of the only one."""

CHECK_FOR = 2.0
"""Seconds that it has to answer."""

LOOK_EVERY = 0.1
"""Seconds after which one who waits for a place looks whether one got lost."""

_NOTHING = call("SELECT")


class _Place:
    """The right to have a connection. Who drops it instead of giving it back has given it up all the same."""


class Pool:
    """At most `size` connections; the one used last is lent first, so that few are open.

    A signal's handler may raise anywhere in here, as those do that end requests which take too long. So places are
    not counted up and down: there are as many as somebody has, and a lost one is made anew, once the exception that
    cost it is forgotten. No lock is held but by a `with` of its own, in which nothing waits.
    """

    def __init__(self, name: str, size: int, connect: Callable[[float], Wire], kept: int = 0) -> None:
        self._name = name
        self._size = size
        self._kept = kept
        self._connect = connect
        self._making = threading.Lock()
        self._places = WeakSet[_Place]()
        self._lent_at_once = WeakSet[_Place]()
        self._free = SimpleQueue[_Place]()
        self._idle = deque[Wire]()
        self._looked_at = -math.inf
        self._end = SimpleQueue[None]()
        self._closed = False

    @contextmanager
    def lend(self, until: float) -> Iterator[Wire]:
        """Lend a connection that nobody else uses; one that did not come to an end with its work is not kept."""
        asked_at = time.monotonic()
        place = self._take_place(until)
        if place is None:
            raise StoreUnavailableError(
                f"all {self._size} connections of this process to {self._name} were in use for"
                f" {time.monotonic() - asked_at:.1f} s: call it from fewer threads at once, raise"
                " ?pool_size= in the URL, or try again"
            )
        try:
            wire = self._idle_wire(until) or self._connect(until)
            try:
                yield wire
            finally:
                self._take_back(wire)
        finally:
            self._free.put(place)

    @contextmanager
    def lend_at_once(self) -> Iterator[Wire | None]:
        """Lend one that is open and was used lately, waiting for nothing; None where there is no such one.

        An event loop gives it back only when it comes to that. Somebody may block it meanwhile with a call that
        needs a place itself: so the last `kept` ones are never lent in this way.
        """
        place = self._find_place_at_once() if self._idle else None
        if place is None:
            yield None
            return
        try:
            wire = self._lately_used_wire()
            try:
                yield wire
            finally:
                if wire is not None:
                    self._take_back(wire)
        finally:
            self._lent_at_once.discard(place)
            self._free.put(place)

    def close(self) -> None:
        """Hang up whatever is idle; what is lent is hung up when it comes back."""
        self._closed = True
        self._end.put(None)
        self._let_go()

    def _take_place(self, until: float) -> _Place | None:
        """Return a place that is free, and None where none became so until then."""
        while True:
            place = self._find_place()
            if place is not None:
                return place
            left = until - time.monotonic()
            if left <= 0:
                return None
            with suppress(Empty):
                return self._free.get(timeout=min(left, LOOK_EVERY))

    def _find_place(self) -> _Place | None:
        """Return a place that is free now, or None."""
        with suppress(Empty):
            return self._free.get_nowait()
        with self._making:
            if len(self._places) < self._size:
                self._places.add(place := _Place())
                return place
        return None

    def _find_place_at_once(self) -> _Place | None:
        """Return a place that is free now and need not be kept, or None."""
        place = self._find_place()
        if place is None:
            return None
        self._lent_at_once.add(place)
        if len(self._lent_at_once) <= self._size - self._kept:
            return place
        self._lent_at_once.discard(place)
        self._free.put(place)
        return None

    def _take_back(self, wire: Wire) -> None:
        try:
            if wire.settled and wire.is_open:
                self._idle.append(wire)
            else:
                wire.close()
        except BaseException:
            wire.close()
            raise
        self._let_go()
        if len(self._idle) > 1 and self._looked_at < time.monotonic() - IDLE_FOR:
            self._looked_at = time.monotonic()
            with suppress(RuntimeError):  # the system has no thread left: they go with a later call
                _thread.start_new_thread(_look_after_idle, (ref(self), self._end))

    def _let_go(self) -> None:
        """Hang up what has not been used for long; the longest unused is the first in line."""
        with suppress(IndexError):
            while self._closed or self._idle[0].used_at <= time.monotonic() - self._patience:
                self._idle.popleft().close()

    @property
    def _patience(self) -> float:
        return IDLE_FOR if len(self._idle) > 1 else LAST_IDLE_FOR

    def look_after_idle(self) -> bool:
        """Hang up what has not been used for long; tell whether there is more to look after."""
        self._looked_at = -math.inf  # before the look: who gives one back after it has another thread look
        self._let_go()
        if len(self._idle) > 1:
            self._looked_at = time.monotonic()
            return True
        return False

    def _idle_wire(self, until: float) -> Wire | None:
        while (wire := self._pop()) is not None:
            if _is_fit(wire, until):
                return wire
            wire.close()
        return None

    def _lately_used_wire(self) -> Wire | None:
        while (wire := self._pop()) is not None:
            if _is_in_doubt(wire):
                self._idle.append(wire)  # and so are all the others, which have rested for longer
                return None
            if _is_fit(wire, None):
                return wire
            wire.close()
        return None

    def _pop(self) -> Wire | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None


def _look_after_idle(of: "ref[Pool]", end: SimpleQueue[None]) -> None:
    """Hang up connections that nobody uses, in a thread, where nobody gives one back any more."""
    while True:
        with suppress(Empty):
            end.get(timeout=IDLE_FOR / 4)
            return
        pool = of()
        if pool is None or not pool.look_after_idle():
            return
        pool = None


def _is_in_doubt(wire: Wire) -> bool:
    return time.monotonic() - wire.used_at > CHECK_AFTER


def _is_fit(wire: Wire, until: float | None) -> bool:
    """Tell whether a connection can be used. One that rested for long has to answer, if there is time to ask."""
    try:
        wire.catch_up()  # the end of a server that was stopped is read here
        if until is not None and _is_in_doubt(wire):
            wire.ask([_NOTHING], min(until, time.monotonic() + CHECK_FOR))
    except (psycopg.Error, OverdueError):
        return False
    except BaseException:
        wire.close()
        raise
    return wire.is_open
