"""Takes part in a transaction of the user's own: our statements on their connection, their commit or rollback.

Each verb has a savepoint, so that one that fails leaves the transaction usable, with nothing of ours in it. Where
no transaction is open we begin one, as Python's own driver would at the first write, but at once with the write
lock: so what we read stays true until the commit.

    run:     [BEGIN IMMEDIATE] ─► SAVEPOINT ─► write lock ─► right schema? ─► the verb ─► RELEASE
    begin:   [BEGIN IMMEDIATE] ─► SAVEPOINT ─► write lock ─► right schema?
    commit:  RELEASE, which fails if the user ended the transaction in between ─► COMMIT
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from standfast.errors import ConfigurationError, SchemaError, StoreError, StoreUnavailableError
from standfast.store.foreign import to_be_awaited
from standfast.store.sqlite.foreign import Foreign, Hand, awaited, begins_by_itself, foreign, plain_rows
from standfast.store.sqlite.migrate import missing
from standfast.store.sqlite.sql_files import load_migrations, load_statements
from standfast.store.sqlite.steps import run_steps
from standfast.store.sqlite.translate import is_busy, translate
from standfast.store.verb import Tone, Verb

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

    def __init__(self, foreign: Foreign, home: Home) -> None:
        self._foreign = foreign
        self._home = home
        self._hand = Hand(foreign)
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
    return Joined(foreign(connection), home)


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
