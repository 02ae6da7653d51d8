"""One writer with group commit, without a thread of its own.

A caller puts its verb in line and asks for the lock. Whoever gets it leads: it begins a transaction, takes all that
stands in line by then, runs it, commits once, and notes each outcome. Those who get the lock after it find their
outcome there. So a crowd pays for one fsync, and a single caller for no hop between threads.

    in line ──► begun by a leader ──► over (by the commit, or an error)
        └─────► withdrawn (its caller has left)

The order begin → write lock → take the line matters: everything that a verb's caller did before, in any file, was
committed before any verb of the group reads (supervision_verbs.py builds on it).

Of several verbs each has a savepoint: one that fails undoes itself and nothing else. If the commit fails, all fail.
If the transaction cannot begin, those fail who stood in line when it was tried; who came later tries anew.

A signal handler may raise after any call in here, in the thread that leads or in one that waits. So the end of a
transaction is one list that all its verbs share, and the commit itself fills it: all of them end in one step. If a
leader was interrupted, the next leader finds the list empty, and fails what had begun. A caller that leaves
withdraws: its verb does not begin after that, and if it has begun, the caller waits for its end.
"""

import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from standfast.errors import StandfastError, StoreError, StoreUnavailableError
from standfast.store.sqlite.forks import GATE, Connection
from standfast.store.sqlite.steps import run_steps
from standfast.store.sqlite.translate import translate
from standfast.store.sqlite.turn import Turn
from standfast.store.verb import Tone, Verb

GROUP_LIMIT = 200
"""So many verbs share one transaction at most, so that the first in line does not wait for ever."""

T = TypeVar("T")

End = list[bool | StoreError]
"""How a transaction ended, empty until then: True where it was committed, else the error."""

_NO_TURN = nullcontext()

_OF_A_VERB = (
    StandfastError,
    sqlite3.Error,
    msgspec.MsgspecError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)
"""Errors that are taken for a verb's own. Any other may have been raised by a signal handler."""


class Entry(Generic[T]):
    """A verb in line and, later, its outcome."""

    __slots__ = ("_answer", "_error", "_has_run", "end", "has_left", "verb")

    def __init__(self, verb: Verb[T]) -> None:
        self.verb = verb
        self.end: Sequence[bool | StoreError] = ()
        """The end of its transaction, once it is begun."""
        self.has_left = False
        self._has_run = False
        self._answer: Any = None
        self._error: Exception | None = None

    @property
    def done(self) -> bool:
        """Whether it has its outcome."""
        return bool(self.end)

    @property
    def succeeded(self) -> bool:
        """Whether the verb ran without an error so far, even if its caller has left."""
        return self._error is None and self._has_run

    def note(self, answer: T) -> None:
        """Keep the answer; it counts once the transaction is committed."""
        self._answer = answer
        self._has_run = True

    def fail(self, error: Exception) -> None:
        """Keep the error, unless there is one already."""
        self._error = self._error or error

    def outcome(self) -> T:
        """Return the answer or raise the error."""
        if self._error is not None:
            raise self._error
        end = self.end[0]
        if isinstance(end, StoreError):
            raise copy(end)  # each caller raises, and may note on, one of its own
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
        self._line: list[Entry[Any]] = []
        """A list and no deque: others come and leave while it is copied."""
        self._lead = threading.Lock()
        self._connection: Connection | None = None
        self._end: End = [True]
        """That of the last transaction."""
        self._may_be_stored = False
        """Whether the commit of the last transaction was begun."""

    def run(self, verb: Verb[T]) -> T:
        """Run a verb with those that stand in line, and return or raise its outcome."""
        entry = Entry(verb)
        try:
            return self.finish(self.put_in_line(entry))
        except BaseException:
            entry.has_left = True
            if not self.withdraw(entry):
                self.settle()
            raise

    def put_in_line(self, entry: Entry[T]) -> Entry[T]:
        """Announce a verb; `finish` sees it through, and `withdraw` takes it back."""
        self._line.append(entry)
        return entry

    def withdraw(self, entry: Entry[Any]) -> bool:
        """Let nobody begin a verb any more. Return False if it has begun, and its outcome is still open."""
        entry.has_left = True
        if not entry.done and isinstance(entry.end, list):
            return False
        self._leave_line(entry)
        return True

    def settle(self) -> None:
        """Wait until what was begun is over."""
        with self._lead:
            if not self._end:
                GATE.run(self._abandon)

    def finish(self, entry: Entry[T]) -> T:
        """Lead, or wait for a leader, until the verb has its outcome; return or raise it."""
        while not entry.end:
            if entry.has_left:
                raise StoreUnavailableError(f"{self._path}: the call was withdrawn before it began")
            tones: Iterable[Tone] = ()
            with self._lead:
                if not entry.end:
                    tones = GATE.run(partial(self._run_group, entry))
            for tone in tones:
                self._ring(tone)
        return entry.outcome()

    def close(self) -> None:
        """Let go of the connection, after the transaction that runs now."""
        with self._lead:
            GATE.run(self._drop_connection)

    def _run_group(self, own: Entry[Any]) -> set[Tone]:
        """Run one transaction for all in line, and return how to ring for it. `own` is that of the leader."""
        if not self._end:
            self._abandon()
        end: End = []
        self._end, self._may_be_stored = end, False
        group = list(self._line)  # those fail if the transaction cannot begin
        try:
            connection = self._connection = self._renew(self._connection)
            with self._turn or _NO_TURN:
                connection.execute("BEGIN")
                connection.execute(self._lock_sql)
                group = self._take()
                self._run_all(connection, group, own)
                if connection.in_transaction:
                    self._may_be_stored = True
                    # The commit and its note are one step of C: no signal handler runs in between.
                    end.extend(map(bool, map(connection.execute, ("COMMIT",))))
                else:
                    end.append(True)
        except sqlite3.Error as error:
            self._give_up(group, end, translate(error, self._path))
        except StoreError as error:
            self._give_up(group, end, error)
        except BaseException:
            # An interrupt of the leader's own thread; the others must not wait for ever.
            self._abandon()
            raise
        for entry in group:
            self._leave_line(entry)
        if end[0] is not True:
            return set()
        return {tone for entry in group if entry.succeeded for tone in entry.verb.tones}

    def _take(self) -> list[Entry[Any]]:
        return list(self._line)[:GROUP_LIMIT]

    def _run_all(self, connection: sqlite3.Connection, group: list[Entry[Any]], own: Entry[Any]) -> None:
        for entry in group:
            if entry.end:
                continue  # its leader was interrupted before it took the verb out of the line
            entry.end = self._end
            if entry.has_left:
                continue
            if len(group) > 1:
                connection.execute("SAVEPOINT verb")
            try:
                entry.note(run_steps(connection, entry.verb.steps))
            except Exception as error:
                if entry is not own and _may_be_of_a_signal(error):
                    entry.fail(self._interruption(error))
                    raise
                entry.fail(translate(error, self._path) if isinstance(error, sqlite3.Error) else error)
                self._undo(connection, error, in_group=len(group) > 1)
            if len(group) > 1:
                connection.execute("RELEASE verb")

    def _undo(self, connection: sqlite3.Connection, error: Exception, *, in_group: bool) -> None:
        if not connection.in_transaction:
            # Some errors, a full disk among them, make SQLite roll back everything: the whole group failed.
            raise error
        connection.execute("ROLLBACK TO verb" if in_group else "ROLLBACK")

    def _give_up(self, group: list[Entry[Any]], end: End, error: StoreError) -> None:
        """Fail who waited for this transaction, and nobody else; start afresh with the next."""
        self._drop_connection()
        for entry in group:
            if not entry.end:
                entry.end = end
        end.append(error)

    def _abandon(self) -> None:
        """Fail the verbs that an interrupted leader had begun; the others still stand in line."""
        self._drop_connection()
        if not self._end:
            self._end.append(self._interruption())

    def _interruption(self, error: Exception | None = None) -> StoreError:
        """Return the error for verbs whose leader was interrupted. `error` is the cause, if a verb raised it."""
        stored = "it may be stored or not" if self._may_be_stored else "nothing of it is stored"
        interruption = StoreUnavailableError(f"{self._path}: the write was interrupted, and {stored}: try again")
        interruption.in_doubt = self._may_be_stored
        interruption.__cause__ = error
        return interruption

    def _leave_line(self, entry: Entry[Any]) -> None:
        try:
            self._line.remove(entry)
        except ValueError:  # it has been taken out
            return

    def _drop_connection(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.rollback()  # a close would not roll back while a cursor is still open
            self._connection.close()
            self._connection = None
        if self._turn is not None:
            self._turn.close()


def _may_be_of_a_signal(error: Exception) -> bool:
    """Tell whether a signal handler may have raised it in this thread, and not the verb."""
    if threading.current_thread() is not threading.main_thread():
        return False
    return not isinstance(error, _OF_A_VERB)
