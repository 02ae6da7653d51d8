"""The engine of SQLite: callers stand in line, and one writes for all of them, in its turn among processes.

Turns to write, for the processes that share a file.

SQLite alone is not fair: who waits for its lock looks again after up to 100 ms, and who writes without a pause has
it again long before. So who writes has the turn meanwhile. Who waits for the turn looks for it all the time, and
who has written for a while without a pause makes one, in which the others find it free:

    take the turn ─► write, commit ─► give it back ─► write again ─► … ─► pause

The turn is a lock on the folder of the bell, which goes with the process that has it. It is a courtesy and never a
condition: SQLite's own lock still decides. Who cannot take the turn goes on without, and who has waited for it in
vain does not ask for a while.
"""

import asyncio
import errno
import os
import sqlite3
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from standfast.errors import StandfastError, StoreError, StoreUnavailableError
from standfast.stores.refusals import refuse_foreign
from standfast.stores.sqlite.connect import (
    FORK_GUARD,
    Connection,
    Files,
    Opener,
    leave_tidy,
    open_beats,
    open_jobs,
    open_reader,
)
from standfast.stores.sqlite.statements import (
    UndecodableTextError,
    load_statements,
    run_steps,
    translate,
    translated,
)
from standfast.stores.threads import Threads, in_a_thread
from standfast.stores.verb import Access, Tone, Verb

if sys.platform != "win32":
    import fcntl

LASTS = 0.03
"""Seconds for which one writes without a pause."""

PATIENCE = 1.0
"""Seconds for which the turn is waited for: somebody may have stopped with it in hand."""

LEFT_ALONE = 10.0
"""Seconds for which it is not asked for after that."""

_PAUSE = 0.0005
_LOOK_EVERY = 0.0002


class FairLock:
    """The turn of one writer, which has it as long as a `with` lasts. For one thread at a time.

    A signal handler may raise anywhere in it. `close`, or the next use, then lets go of what is left.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._door: list[int] = []
        """The open folder, or nothing."""
        self._may_have_it = False
        self._since = self._until = self._asks_from = 0.0

    def __enter__(self) -> None:
        if self._may_have_it:
            self.close()
        now = time.monotonic()
        if now < self._asks_from:
            return
        if now - self._until > _PAUSE:
            self._rested(now)
        elif now - self._since > LASTS:
            time.sleep(_PAUSE)
            self._rested(time.monotonic())
        try:
            self._may_have_it = True
            self._may_have_it = self._take()
        except OSError as error:  # no such folder, or a file system without such locks
            refuse_foreign(error)
            self._may_have_it = False
        if not self._may_have_it:
            self._asks_from = time.monotonic() + LEFT_ALONE

    def __exit__(self, *_: object) -> None:
        if self._may_have_it:
            try:
                _unlock(self._door[0])
                self._may_have_it = False
            except OSError as error:
                refuse_foreign(error)  # the next use lets go of the folder
            self._until = time.monotonic()

    def close(self) -> None:
        """Let go of the turn, and of the folder."""
        door, self._door = self._door, []
        try:
            try:
                if door and self._may_have_it:
                    _unlock(door[0])
            finally:
                if door:
                    os.close(door[0])  # whatever was raised since its number was forgotten
        except OSError as error:
            refuse_foreign(error)
        self._may_have_it = False

    def _rested(self, now: float) -> None:
        self._since = now
        self.close()  # the folder may be another by now

    def _take(self) -> bool:
        if not self._door:
            self._open()
        give_up_at = time.monotonic() + PATIENCE
        while not _lock(self._door[0]):
            if time.monotonic() >= give_up_at:
                return False
            time.sleep(_LOOK_EVERY)
        return True

    def _open(self) -> None:
        try:
            self._open_folder()
        except FileNotFoundError:
            with suppress(FileExistsError):
                os.mkdir(self._folder)  # noqa: PTH102 - the hot path
            self._open_folder()

    def _open_folder(self) -> None:
        # Opening and noting are one step of C: no signal handler runs in between, and no descriptor is forgotten.
        self._door.extend(map(os.open, (self._folder,), (os.O_RDONLY,)))


def _lock(descriptor: int) -> bool:
    """Return whether nobody else has it. Raises OSError where there is no such thing."""
    if sys.platform == "win32":
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _unlock(descriptor: int) -> None:
    """Give it back: to close it would not do, if a process was forked meanwhile that has it, too."""
    if sys.platform != "win32":
        fcntl.flock(descriptor, fcntl.LOCK_UN)


# One writer with group commit, without a thread of its own.
#
# A caller puts its verb in line and asks for the lock. Whoever gets it leads: it begins a transaction, takes all that
# stands in line by then, runs it, commits once, and notes each outcome. Those who get the lock after it find their
# outcome there. So a crowd pays for one fsync, and a single caller for no hop between threads.
#
#     in line ──► begun by a leader ──► over (by the commit, or an error)
#         └─────► withdrawn (its caller has left)
#
# The order begin → write lock → take the line matters: everything that a verb's caller did before, in any file, was
# committed before any verb of the group reads (supervision_verbs.py builds on it).
#
# Of several verbs each has a savepoint: one that fails undoes itself and nothing else. If the commit fails, all fail.
# If the transaction cannot begin, those fail who stood in line when it was tried; who came later tries anew.
#
# A signal handler may raise after any call in here, in the thread that leads or in one that waits. So the end of a
# transaction is one list that all its verbs share, and the commit itself fills it: all of them end in one step. If a
# leader was interrupted, the next leader finds the list empty, and fails what had begun. A caller that leaves
# withdraws: its verb does not begin after that, and if it has begun, the caller waits for its end.

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
        turn: FairLock | None,
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
                FORK_GUARD.run(self._abandon)

    def finish(self, entry: Entry[T]) -> T:
        """Lead, or wait for a leader, until the verb has its outcome; return or raise it."""
        while not entry.end:
            if entry.has_left:
                raise StoreUnavailableError(f"{self._path}: the call was withdrawn before it began")
            tones: Iterable[Tone] = ()
            with self._lead:
                if not entry.end:
                    tones = FORK_GUARD.run(partial(self._run_group, entry))
            for tone in tones:
                self._ring(tone)
        return entry.outcome()

    def close(self) -> None:
        """Let go of the connection, after the transaction that runs now."""
        with self._lead:
            FORK_GUARD.run(self._drop_connection)

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


# All that one process has open: a writer for each file, connections to read, and three threads for async callers.
#
# Jobs, beats and reads have a lane each, so that none waits for another.


class Engine:
    """The open files of one process. Making one opens nothing; the first verb does."""

    def __init__(self, files: Files, namespace: str | None, ring: Callable[[Tone], None]) -> None:
        self._files = files
        self._opener = Opener(files, namespace)
        self._readers: deque[Connection] = deque()
        lock_sql = load_statements(namespace)["take_write_lock"]
        # The beats are closed first: the last connection has to be one that may write the jobs.
        self._writers = {
            Access.BEAT: GroupWriter(files.beats, self._renewer(open_beats), lock_sql, None, ring),
            Access.WRITE: GroupWriter(files.jobs, self._renewer(open_jobs), lock_sql, FairLock(files.bell), ring),
        }
        self._threads = {
            access: Threads(1, f"standfast-sqlite-{access.value}", partial(_closed, files.jobs))
            for access in Access
        }

    def run(self, verb: Verb[T]) -> T:
        """Run the verb in the caller's own thread."""
        if verb.access is Access.READ:
            return self._read(verb)
        writer = self._writers[verb.access]
        try:
            return writer.run(verb)
        except UndecodableTextError:
            return writer.run(_anew(verb))

    async def arun(self, verb: Verb[T]) -> T:
        """Run the verb in the thread of its lane. It stands in line at once, so that a crowd shares a commit."""
        thread = self._threads[verb.access]
        if verb.access is Access.READ:
            return await in_a_thread(thread, partial(self._read, verb))
        writer = self._writers[verb.access]
        is_again = False
        while True:
            entry = Entry(verb)
            try:
                writer.put_in_line(entry)
                return await in_a_thread(thread, partial(writer.finish, entry))
            except BaseException as error:
                if not writer.withdraw(entry) and isinstance(error, asyncio.CancelledError):
                    with suppress(StoreError):  # it is closed, which waits for what runs
                        await in_a_thread(thread, writer.settle)
                if is_again or not isinstance(error, UndecodableTextError):
                    raise
            verb, is_again = _anew(verb), True

    @property
    def is_prepared(self) -> bool:
        """Whether the files were made ready before."""
        return self._opener.has_opened

    def prepare(self) -> None:
        """Make the files ready; cheap where nothing is to be done."""
        FORK_GUARD.run(self._prepare)

    def renew_reader(self, previous: Connection | None) -> Connection:
        """Return a connection that reads both files: the one given if it is of use still. The caller closes it."""
        return self._opener.renew(previous, open_reader)

    def close(self) -> None:
        """Wait for what runs, then let go of threads and connections."""
        for thread in self._threads.values():
            thread.close()
        for writer in self._writers.values():
            writer.close()
        FORK_GUARD.run(self._let_go)

    def _prepare(self) -> None:
        FORK_GUARD.refuse_crossed()
        self._opener.prepare()

    def _let_go(self) -> None:
        while self._readers:
            self._readers.pop().close()
        if self._opener.has_opened:
            leave_tidy(self._files)

    def _renewer(self, connect: Callable[[Files], Connection]) -> Callable[[Connection | None], Connection]:
        return lambda previous: self._opener.renew(previous, connect)

    def _read(self, verb: Verb[T]) -> T:
        return FORK_GUARD.run(partial(self._read_inside, verb))

    def _read_inside(self, verb: Verb[T]) -> T:
        connection = None
        with translated(self._files.jobs):
            try:
                connection = self._idle_reader()
                connection = self.renew_reader(connection)
                connection.execute("BEGIN")
                try:
                    answer = run_steps(connection, verb.steps)
                except UndecodableTextError:
                    answer = run_steps(connection, _anew(verb).steps)
                connection.execute("COMMIT")
            except BaseException:
                # It is not used again: it may be in the middle of a transaction.
                if connection is not None:
                    connection.close()
                while self._readers:  # nor are others, which may have the file open that was there before
                    self._readers.pop().close()
                raise
            self._readers.append(connection)
            return answer

    def _idle_reader(self) -> Connection | None:
        try:
            return self._readers.pop()
        except IndexError:
            return None


def _anew(verb: Verb[T]) -> Verb[T]:
    """Let the steps of a verb begin again."""
    if verb.again is not None:
        verb.steps = verb.again()
    return verb


def _closed(path: Path) -> StoreError:
    return StoreError(f"{path} was closed: open a new store")
