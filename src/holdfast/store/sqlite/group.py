"""One writer with group commit, without a thread of its own.

A caller puts its verb in line and asks for the lock. Whoever gets it leads: it begins a transaction, takes all that
stands in line by then, runs it, commits once, and notes each outcome. Those who get the lock after it find their
outcome there. So a crowd pays for one fsync, and a single caller for no hop between threads.

    in line ──► taken by a leader ──► outcome noted (after the commit, or an error)
        └─────► withdrawn (its caller was cancelled)

The order begin → write lock → take the line matters: everything that a verb's caller did before, in any file, was
committed before any verb of the group reads (supervision_verbs.py builds on it).

Of several verbs each has a savepoint: one that fails undoes itself and nothing else. If the commit fails, all fail.
If the transaction cannot begin, those fail who stood in line when it was tried; who came later tries anew.
"""

import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext, suppress
from copy import copy
from pathlib import Path
from typing import Any, Generic, TypeVar

from holdfast.errors import StoreError, StoreUnavailableError
from holdfast.store.sqlite.forks import GATE, Connection
from holdfast.store.sqlite.steps import run_steps
from holdfast.store.sqlite.translate import translate
from holdfast.store.sqlite.turn import Turn
from holdfast.store.verb import Tone, Verb

GROUP_LIMIT = 200
"""So many verbs share one transaction at most, so that the first in line does not wait for ever."""

T = TypeVar("T")

_NO_TURN = nullcontext()


class Entry(Generic[T]):
    """A verb in line and, later, its outcome."""

    __slots__ = ("_answer", "_error", "done", "verb")

    def __init__(self, verb: Verb[T]) -> None:
        self.verb = verb
        self.done = False
        self._answer: Any = None
        self._error: Exception | None = None

    @property
    def succeeded(self) -> bool:
        """Whether the verb ran without an error so far."""
        return self._error is None

    def note(self, answer: T) -> None:
        """Keep the answer; it counts once the transaction is committed."""
        self._answer = answer

    def fail(self, error: Exception) -> None:
        """Keep the error, unless there is one already."""
        self._error = self._error or error

    def outcome(self) -> T:
        """Return the answer or raise the error."""
        if self._error is not None:
            raise self._error
        answer: T = self._answer
        return answer


class GroupWriter:
    """The only writer of one file in this process."""

    def __init__(
        self,
        path: Path,
        renew: Callable[[Connection | None], Connection],
        lock_sql: str,
        turn: Turn | None,
        ring: Callable[[Tone], None],
    ) -> None:
        self._path = path
        self._renew = renew
        self._lock_sql = lock_sql
        self._turn = turn
        self._ring = ring
        self._line: deque[Entry[Any]] = deque()
        self._lead = threading.Lock()
        self._connection: Connection | None = None

    def put_in_line(self, verb: Verb[T]) -> Entry[T]:
        """Announce a verb; `finish` sees it through."""
        entry = Entry(verb)
        self._line.append(entry)
        return entry

    def withdraw(self, entry: Entry[Any]) -> None:
        """Take a verb out of the line if nobody has begun it."""
        if not self._leave_line(entry):
            return
        entry.verb.steps.close()
        # A thread may be about to see it through already.
        entry.fail(StoreUnavailableError(f"{self._path}: the call was withdrawn before it began"))
        entry.done = True

    def finish(self, entry: Entry[T]) -> T:
        """Lead, or wait for a leader, until the verb has its outcome; return or raise it."""
        while not entry.done:
            tones = set[Tone]()
            with self._lead:
                if not entry.done:
                    with GATE:
                        tones = self._run_group()
            for tone in tones:
                self._ring(tone)
        return entry.outcome()

    def close(self) -> None:
        """Let go of the connection, after the transaction that runs now."""
        with self._lead, GATE:
            self._drop_connection()
            if self._turn is not None:
                self._turn.close()

    def _run_group(self) -> set[Tone]:
        """Run one transaction for all in line, and return how to ring for it."""
        group: list[Entry[Any]] = []
        in_line = list(self._line)
        try:
            connection = self._connection = self._renew(self._connection)
            with self._turn or _NO_TURN:
                connection.execute("BEGIN")
                connection.execute(self._lock_sql)
                group = self._take()
                self._run_all(connection, group)
                if connection.in_transaction:
                    connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._give_up(group or in_line, translate(error, self._path))
        except StoreError as error:
            self._give_up(group or in_line, error)
        except BaseException:
            # An interrupt of the leader's own thread; the others must not wait for ever.
            self._give_up(
                group or in_line, StoreUnavailableError(f"{self._path}: the write was interrupted, try again")
            )
            raise
        for entry in group:
            entry.done = True
        return {tone for entry in group if entry.succeeded for tone in entry.verb.tones}

    def _take(self) -> list[Entry[Any]]:
        taken: list[Entry[Any]] = []
        with suppress(IndexError):  # the line may be shorter than it was: a caller withdraws without the lock
            while len(taken) < GROUP_LIMIT:
                taken.append(self._line.popleft())
        return taken

    def _run_all(self, connection: sqlite3.Connection, group: list[Entry[Any]]) -> None:
        for entry in group:
            if len(group) > 1:
                connection.execute("SAVEPOINT verb")
            try:
                entry.note(run_steps(connection, entry.verb.steps))
            except Exception as error:  # noqa: BLE001 - it is raised again in its caller's own thread
                entry.fail(translate(error, self._path) if isinstance(error, sqlite3.Error) else error)
                self._undo(connection, error, in_group=len(group) > 1)
            if len(group) > 1:
                connection.execute("RELEASE verb")

    def _undo(self, connection: sqlite3.Connection, error: Exception, *, in_group: bool) -> None:
        if not connection.in_transaction:
            # Some errors, a full disk among them, make SQLite roll back everything: the whole group failed.
            raise error
        connection.execute("ROLLBACK TO verb" if in_group else "ROLLBACK")

    def _give_up(self, waiting: list[Entry[Any]], error: StoreError) -> None:
        """Fail who waited for this transaction when it began, and nobody else; start afresh with the next."""
        for entry in waiting:
            self._leave_line(entry)
            entry.fail(copy(error))  # each caller raises, and may note on, one of its own
            entry.done = True
        self._drop_connection()

    def _leave_line(self, entry: Entry[Any]) -> bool:
        try:
            self._line.remove(entry)
        except ValueError:
            return False
        return True

    def _drop_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
