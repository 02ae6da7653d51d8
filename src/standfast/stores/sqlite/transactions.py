"""Connections that are not ours: the user's own, of sqlite3, SQLAlchemy or Django, behind one small port."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from standfast.errors import ConfigurationError, SchemaError, StoreError, StoreUnavailableError
from standfast.stores.sqlite.statements import (
    Executed,
    is_busy,
    load_migrations,
    load_statements,
    missing,
    run_steps,
    translate,
)
from standfast.stores.user_connection import comes_from, no_connection, not_awaited, to_be_awaited
from standfast.stores.verb import Tone, Verb

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession


_KINDS = "a sqlite3.Connection, or a Connection or Session of SQLAlchemy, sync or async, or Django's connection"


class UserConnection(Protocol):
    """A connection of the user's own, used from the thread that it belongs to."""

    @property
    def driver(self) -> Any:
        """The driver's own connection: sqlite3's, or one that has the same attributes."""
        ...

    def cursor(self) -> Any:
        """Return a new cursor of the driver."""
        ...

    def enter(self) -> None:
        """Let the layers above the driver know that the connection takes part in a transaction from now on."""
        ...

    def refuse_shared(self) -> None:
        """Raise ConfigurationError where its commit would not end the transaction."""
        ...

    def commit(self) -> None:
        """Commit as the user would."""
        ...

    def rollback(self) -> None:
        """Roll back as the user would."""
        ...

    def note_rollback(self) -> None:
        """Let the layers above the driver know that the transaction was rolled back below them."""
        ...


class Sqlite3Connection:
    """A plain connection of the sqlite3 module."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.driver = connection

    def cursor(self) -> sqlite3.Cursor:
        """Return a cursor of sqlite3 itself, whatever a subclass would make."""
        return sqlite3.Connection.cursor(self.driver, sqlite3.Cursor)

    def enter(self) -> None:
        """Do nothing: there are no layers above."""

    def refuse_shared(self) -> None:
        """Refuse nothing: a commit here is SQLite's own."""

    def note_rollback(self) -> None:
        """Do nothing: there are no layers above."""

    def commit(self) -> None:
        """Commit; with autocommit=True the method of that name would do nothing."""
        if is_autocommit(self.driver):
            self.cursor().execute("COMMIT")
        else:
            sqlite3.Connection.commit(self.driver)

    def rollback(self) -> None:
        """Roll back what is open."""
        if not is_autocommit(self.driver):
            sqlite3.Connection.rollback(self.driver)
        elif self.driver.in_transaction:
            self.cursor().execute("ROLLBACK")


class UserCursor:
    """Runs our statements on a connection of the user's own."""

    def __init__(self, foreign: UserConnection) -> None:
        self._foreign = foreign

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Executed:
        """Run a statement."""
        cursor = self._foreign.cursor()
        cursor.execute(sql, parameters)
        executed: Executed = cursor
        return executed

    def executemany(self, sql: str, rows: Sequence[Sequence[Any]], /) -> Executed:
        """Run a statement once for each row of parameters."""
        cursor = self._foreign.cursor()
        cursor.executemany(sql, rows)
        executed: Executed = cursor
        return executed


def awaited(connection: Any) -> "AsyncConnection | AsyncSession | None":
    """Return what is to be awaited of a connection; None where it is none of that kind."""
    if not comes_from("sqlalchemy", connection):
        return None
    from standfast.stores.user_sqlalchemy import async_owner  # noqa: PLC0415 - only who uses it loads it

    return async_owner(connection)


def user_connection(connection: Any) -> UserConnection:
    """Return the port to a connection. Raises ConfigurationError for one that cannot be used."""
    if isinstance(connection, sqlite3.Connection):
        return Sqlite3Connection(connection)
    found: UserConnection | None = None
    if comes_from("sqlalchemy", connection):
        from standfast.stores.user_sqlalchemy import alchemy_connection  # noqa: PLC0415 - only who uses it loads it

        found = alchemy_connection(connection)
    elif comes_from("django", connection):
        from standfast.stores.user_django import django_connection  # noqa: PLC0415 - only who uses it loads it

        found = django_connection(connection)
    if found is None:
        raise no_connection(connection, _KINDS)
    return found


def is_autocommit(driver: Any) -> bool:
    """Tell whether the connection has autocommit=True, which Python knows since 3.12."""
    return getattr(driver, "autocommit", None) is True


def begins_by_itself(driver: Any) -> bool:
    """Tell whether the driver opens transactions, so that the user's commit() and rollback() end ours."""
    return not is_autocommit(driver) and driver.isolation_level is not None


@contextmanager
def plain_rows(driver: Any) -> Iterator[None]:
    """Let rows be tuples and texts be str meanwhile, whatever the user made of them."""
    row_factory, text_factory = driver.row_factory, driver.text_factory
    driver.row_factory, driver.text_factory = None, str
    try:
        yield
    finally:
        driver.row_factory, driver.text_factory = row_factory, text_factory


# Takes part in a transaction of the user's own: our statements on their connection, their commit or rollback.
#
# Each verb has a savepoint, so that one that fails leaves the transaction usable, with nothing of ours in it. Where
# no transaction is open we begin one, as Python's own driver would at the first write, but at once with the write
# lock: so what we read stays true until the commit.
#
#     run:     [BEGIN IMMEDIATE] ─► SAVEPOINT ─► write lock ─► right schema? ─► the verb ─► RELEASE
#     begin:   [BEGIN IMMEDIATE] ─► SAVEPOINT ─► write lock ─► right schema?
#     commit:  RELEASE, which fails if the user ended the transaction in between ─► COMMIT

T = TypeVar("T")

_VERB = "standfast_verb"
_WHOLE = "standfast_whole"

ROLLED_BACK = "SQLite has rolled back this whole transaction, your rows too: do not go on in it, begin again"


@dataclass(frozen=True, slots=True)
class Home:
    """What a joined connection has to know of the store: its file and tables, how to make them ready, its bell."""

    path: Path
    namespace: str | None
    prepare: Callable[[], None]
    is_prepared: Callable[[], bool]
    ring: Callable[[Tone], None]
    announce: Callable[[], None]


class Joined:
    """One connection of the user's own, and the transaction on it."""

    def __init__(self, foreign: UserConnection, home: Home) -> None:
        self._foreign = foreign
        self._home = home
        self._hand = UserCursor(foreign)
        self._sql = load_statements(home.namespace)

    @property
    def is_open(self) -> bool:
        """Whether a transaction is open now."""
        return bool(self._foreign.driver.in_transaction)

    def run(self, verb: Verb[T]) -> T:
        """Run a verb in the transaction that is open, or in one that the user's commit() or rollback() ends."""
        with self._ours():
            self._check_file()
            self._foreign.enter()
            if not self.is_open and not begins_by_itself(self._foreign.driver):
                raise ConfigurationError(
                    "this connection is in autocommit mode and no transaction is open, so there is none to join:"
                    " execute BEGIN IMMEDIATE before, and COMMIT after"
                )
            undo = self._begin(_VERB)
        try:
            with plain_rows(self._foreign.driver):
                self._check_schema()
                answer = run_steps(self._hand, verb.steps)
            if verb.wakes:
                self._home.announce()  # before the RELEASE: what raises after it would not be undone
            self._hand.execute(f"RELEASE {_VERB}")
            return answer  # noqa: TRY300 - at once: what raised behind this block would not be undone
        except BaseException as error:
            self._undo(error, undo)
            with self._translated():
                raise

    def begin(self) -> None:
        """Begin a transaction that `commit` or `rollback` ends; one that is open already is taken over."""
        with self._ours():
            self._check_file()
            self._foreign.refuse_shared()
            self._foreign.enter()
            undo = self._begin(_WHOLE)
            try:
                self._check_schema()
            except BaseException as error:
                self._undo(error, undo)
                raise

    def commit(self) -> None:
        """Commit what began with `begin`. If that fails, whatever the reason, the caller has to roll back."""
        with self._ours():
            try:
                self._hand.execute(f"RELEASE {_WHOLE}")
            except sqlite3.OperationalError as error:
                raise StoreError(
                    "the transaction was committed or rolled back inside its block: leave its end to the block, and"
                    " raise an exception to roll back"
                ) from error
            self._foreign.commit()
        for tone in Tone:
            self._home.ring(tone)

    def rollback(self) -> None:
        """Undo everything since `begin`, and what was open before it."""
        with self._translated():
            self._foreign.rollback()

    @contextmanager
    def _ours(self) -> Iterator[None]:
        """Read rows as we know them, and let no error of sqlite3 escape."""
        with self._translated(), plain_rows(self._foreign.driver):
            yield

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise _translate(error, self._home.path) from error

    def _begin(self, name: str) -> str | None:
        """Begin where nothing is open, and make a savepoint; return its name if an undo goes back to it."""
        if self.is_open:
            if self._home.is_prepared():  # nothing has to be made, but the file or its log may be another by now
                self._home.prepare()
            self._hand.execute(f"SAVEPOINT {name}")
            return name
        self._home.prepare()
        try:
            self._hand.execute("BEGIN IMMEDIATE")
            self._hand.execute(f"SAVEPOINT {name}")
        except BaseException as error:
            self._undo(error, None)
            raise
        return None

    def _undo(self, error: BaseException, savepoint: str | None) -> None:
        """Leave the transaction as it was before a call that raises; one that the call began is rolled back.

        If the savepoint is gone, all is rolled back: SQLite has done that, as for a full disk, or the call was
        interrupted during its RELEASE.
        """
        try:
            if savepoint is None:
                self._hand.execute("ROLLBACK")
            else:
                self._hand.execute(f"ROLLBACK TO {savepoint}")
                self._hand.execute(f"RELEASE {savepoint}")
        except BaseException as failure:
            with suppress(sqlite3.Error):
                self._hand.execute("ROLLBACK")
            if savepoint is not None:
                error.add_note(ROLLED_BACK)
                self._foreign.note_rollback()
            if not isinstance(failure, sqlite3.Error):
                raise

    def _check_file(self) -> None:
        files = {name: file for _, name, file in self._hand.execute("PRAGMA database_list").fetchall()}
        if not _is_same(files.get("main") or "", self._home.path):
            other = files.get("main") or "a database in memory"
            raise ConfigurationError(
                f"this connection leads to {other}, and the jobs are in {self._home.path}: only a connection to"
                " that file can share a transaction with them"
            )

    def _check_schema(self) -> None:
        """Take the write lock, and see that the tables are those of this release.

        In this order: a transaction that has read cannot wait for a writer any more.
        """
        known = len(load_migrations("jobs", self._home.namespace))
        try:
            self._hand.execute(self._sql["take_write_lock"])
        except sqlite3.OperationalError as error:
            if is_busy(error) or not self._lacks(known):
                raise
            raise self._unprepared() from error
        if self._lacks(known):
            raise self._unprepared()

    def _lacks(self, known: int) -> int:
        return missing(self._hand, self._home.path, self._home.namespace, known)

    def _unprepared(self) -> SchemaError:
        return SchemaError(
            f"{self._home.path} lacks tables of this release, which cannot be made inside your transaction: call"
            " app.prepare() before it begins"
        )


def join(connection: Any, home: Home) -> Joined:
    """Return the transaction on a sync connection of the user's own. Raises ConfigurationError for any other."""
    if awaited(connection) is not None:
        raise to_be_awaited(connection)
    return Joined(user_connection(connection), home)


def _is_same(file: str, path: Path) -> bool:
    try:
        return bool(file) and Path(file).samefile(path)
    except OSError:
        return Path(file).resolve() == path


def _translate(error: sqlite3.Error, path: Path) -> Exception:
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY_SNAPSHOT:
        return StoreUnavailableError(
            f"{path}: this transaction has read, and another writer has committed since: roll back and repeat it,"
            " and begin it with BEGIN IMMEDIATE"
        )
    if is_busy(error):
        return StoreUnavailableError(
            f"{path} is locked by another writer: roll back and try again; a transaction that begins with BEGIN"
            " IMMEDIATE waits for its turn, as long as the connection's own timeout says"
        )
    if isinstance(error, sqlite3.ProgrammingError):
        return ConfigurationError(f"this connection cannot be used here: {error}")
    return translate(error, path)


# Joined transactions on async connections: through SQLAlchemy's own bridge, on which sync code runs.


class AsyncJoined:
    """One async connection of the user's own, and the transaction on it."""

    def __init__(self, connection: "AsyncConnection | AsyncSession", home: Home) -> None:
        self._connection = connection
        self._home = home

    async def run(self, verb: Verb[T]) -> T:
        """Run a verb in the transaction that is open, or in one that the user's commit or rollback ends."""
        await self._prepare()
        return await self._inside(lambda joined: joined.run(verb))

    async def begin(self) -> None:
        """Begin a transaction that `commit` or `rollback` ends; one that is open already is taken over."""
        await self._prepare()
        await self._inside(Joined.begin)

    async def commit(self) -> None:
        """Commit what began with `begin`. If that fails, whatever the reason, the caller has to roll back."""
        await self._inside(Joined.commit)

    async def rollback(self) -> None:
        """Undo everything since `begin`, and what was open before it."""
        await self._inside(Joined.rollback)

    async def _prepare(self) -> None:
        """Make the tables ready in a thread, as far as this can be done now: the event loop does not wait."""
        if not self._home.is_prepared() and not await self._inside(lambda joined: joined.is_open):
            await asyncio.to_thread(self._home.prepare)

    async def _inside(self, work: Callable[[Joined], T]) -> T:
        return await self._connection.run_sync(lambda sync: work(Joined(user_connection(sync), self._home)))


def ajoin(connection: Any, home: Home) -> AsyncJoined:
    """Return the transaction on an async connection of the user's own. Raises ConfigurationError for any other."""
    found = awaited(connection)
    if found is None:
        user_connection(connection)  # what is no connection at all is told so
        raise not_awaited(connection)
    return AsyncJoined(found, home)
