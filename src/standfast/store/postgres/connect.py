"""Opens connections: how long that may take, and what holds for their sessions."""

import _thread
import re
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict

from standfast.errors import ConfigurationError
from standfast.store.postgres.address import Address
from standfast.store.postgres.waiting import OverdueError
from standfast.store.postgres.wire import Connection, Wire

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
    """
    answers = SimpleQueue[tuple[T] | BaseException]()
    given_up: list[bool] = []

    def run() -> None:
        try:
            answers.put((act(),))
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            answers.put(error)
        if given_up:
            clear_away()

    def clear_away() -> None:
        with suppress(Empty):
            late = answers.get_nowait()  # of the two threads one gets it
            if isinstance(late, tuple):
                undo(late[0])

    _thread.start_new_thread(run, ())
    try:
        answer = answers.get(timeout=max(until - time.monotonic(), 0))
    except BaseException as error:
        given_up.append(True)
        clear_away()
        if isinstance(error, Empty):
            raise OverdueError from None
        raise
    if isinstance(answer, BaseException):
        raise answer
    return answer[0]
