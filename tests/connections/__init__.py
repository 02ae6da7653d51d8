"""Connections of the user's own to PostgreSQL, of every kind that a store can join, behind one face for tests.

with open_own("asyncpg", url) as own:
    own.begin()
    own.do("INSERT INTO orders DEFAULT VALUES")
    own.enqueue(task, order=1)
    own.commit()

Async ones have an event loop of their own, so that tests and customers need none. Only libraries of the kinds that
are opened are loaded.
"""

import asyncio
import os
import re
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import FrameType
from typing import Any

from connections.faces import Async, Sync, for_asyncpg, for_libpq

__all__ = [
    "ASYNC",
    "KINDS",
    "PROVE",
    "SOME",
    "SYNC",
    "Async",
    "Sync",
    "at_line",
    "cancelled_at",
    "for_asyncpg",
    "for_libpq",
    "kind",
    "open_own",
]


@dataclass(frozen=True)
class _Place:
    module: str
    name: str


SYNC = {
    "psycopg": _Place("drivers", "Psycopg"),
    "psycopg-autocommit": _Place("drivers", "PsycopgAutocommit"),
    "psycopg-block": _Place("drivers", "PsycopgBlock"),
    "psycopg2": _Place("drivers", "Psycopg2"),
    "psycopg2-autocommit": _Place("drivers", "Psycopg2Autocommit"),
    "psycopg2-block": _Place("drivers", "Psycopg2Block"),
    "sqlalchemy": _Place("alchemy", "Alchemy"),
    "sqlalchemy-session": _Place("alchemy", "AlchemySession"),
    "sqlalchemy-scoped": _Place("alchemy", "AlchemyScoped"),
    "sqlalchemy-psycopg2": _Place("alchemy", "AlchemyPsycopg2"),
    "sqlalchemy-psycopg2-session": _Place("alchemy", "AlchemySessionPsycopg2"),
    "django": _Place("django", "Django"),
}
ASYNC = {
    "psycopg-async": _Place("drivers", "AsyncPsycopg"),
    "asyncpg": _Place("drivers", "Asyncpg"),
    "asyncpg-pool": _Place("drivers", "AsyncpgPool"),
    "sqlalchemy-async": _Place("alchemy", "AsyncAlchemy"),
    "sqlalchemy-async-session": _Place("alchemy", "AsyncAlchemySession"),
    "sqlalchemy-asyncpg": _Place("alchemy", "AsyncAlchemyAsyncpg"),
    "sqlalchemy-asyncpg-session": _Place("alchemy", "AsyncAlchemySessionAsyncpg"),
    "sqlalchemy-asyncpg-scoped": _Place("alchemy", "AsyncAlchemyScopedAsyncpg"),
}
KINDS = SYNC | ASYNC
_FEW = (
    *("psycopg", "psycopg2-block", "sqlalchemy-session", "sqlalchemy-psycopg2", "django"),
    *("psycopg-async", "asyncpg-pool", "sqlalchemy-asyncpg-scoped"),
)
PROVE = os.environ.get("STANDFAST_PROVE") == "1"
SOME = tuple(KINDS) if PROVE else _FEW
"""Each driver, and each way to hold a connection of it, at least once; all kinds at full size."""


def kind(name: str) -> Any:
    """Return the class of connections of this kind."""
    place = KINDS[name]
    return getattr(import_module(f"connections.{place.module}"), place.name)


@contextmanager
def open_own(name: str, url: str) -> Iterator[Any]:
    """Open a connection of this kind; what it left uncommitted is rolled back by its end."""
    own = kind(name)(url)
    try:
        yield own
    finally:
        own.close()


_JOINING = re.compile(r"standfast/stores/((postgres|sqlite)/transactions|user_\w+)\.py$")
"""The files that take part in a transaction of the user's own."""


@contextmanager
def at_line(moment: int, act: Callable[[], object]) -> Iterator[list[int]]:
    """Do something at so manieth line of what joins a transaction; give a list that tells if it came to that."""
    hits: list[int] = []
    passed, before = 0, sys.gettrace()

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal passed
        if not _JOINING.search(frame.f_code.co_filename):
            return None
        if event == "line" and not hits:
            passed += 1
            if passed == moment:
                hits.append(moment)
                act()
        return trace

    sys.settrace(trace)
    try:
        yield hits
    finally:
        sys.settrace(before)


async def cancelled_at(moment: int, call: Coroutine[Any, Any, Any]) -> tuple[bool, list[str] | None]:
    """Cancel a call at so manieth line. Return whether it came to that, and the notes of its CancelledError."""
    task = asyncio.ensure_future(call)
    with at_line(moment, lambda: asyncio.get_running_loop().call_soon(task.cancel)) as reached:
        await asyncio.wait([task])
    try:
        task.result()
    except asyncio.CancelledError as error:
        return bool(reached), getattr(error, "__notes__", [])
    return bool(reached), None
