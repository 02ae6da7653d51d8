"""All that one process has open: a writer for each file, connections to read, and three threads for async callers.

Jobs, beats and reads have a lane each, so that none waits for another.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from standfast.errors import StoreError
from standfast.store.sqlite.connect import Files, leave_tidy, open_beats, open_jobs, open_reader
from standfast.store.sqlite.forks import GATE, Connection
from standfast.store.sqlite.group import Entry, GroupWriter
from standfast.store.sqlite.opening import Opener
from standfast.store.sqlite.sql_files import load_statements
from standfast.store.sqlite.steps import UndecodableTextError, run_steps
from standfast.store.sqlite.translate import translated
from standfast.store.sqlite.turn import Turn
from standfast.store.threads import Threads, in_a_thread
from standfast.store.verb import Access, Tone, Verb

T = TypeVar("T")


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
            Access.WRITE: GroupWriter(files.jobs, self._renewer(open_jobs), lock_sql, Turn(files.bell), ring),
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
        try:
            return await self._arun(verb)
        except UndecodableTextError:
            return await self._arun(_anew(verb))

    async def _arun(self, verb: Verb[T]) -> T:
        thread = self._threads[verb.access]
        if verb.access is Access.READ:
            return await in_a_thread(thread, partial(self._read, verb))
        writer = self._writers[verb.access]
        entry = Entry(verb)
        try:
            writer.put_in_line(entry)
            return await in_a_thread(thread, partial(writer.finish, entry))
        except BaseException as error:
            if not writer.withdraw(entry) and isinstance(error, asyncio.CancelledError):
                with suppress(StoreError):  # it is closed, which waits for what runs
                    await in_a_thread(thread, writer.settle)
            raise

    @property
    def is_prepared(self) -> bool:
        """Whether the files were made ready before."""
        return self._opener.has_opened

    def prepare(self) -> None:
        """Make the files ready; cheap where nothing is to be done."""
        GATE.run(self._prepare)

    def renew_reader(self, previous: Connection | None) -> Connection:
        """Return a connection that reads both files: the one given if it is of use still. The caller closes it."""
        return self._opener.renew(previous, open_reader)

    def close(self) -> None:
        """Wait for what runs, then let go of threads and connections."""
        for thread in self._threads.values():
            thread.close()
        for writer in self._writers.values():
            writer.close()
        GATE.run(self._let_go)

    def _prepare(self) -> None:
        GATE.refuse_crossed()
        self._opener.prepare()

    def _let_go(self) -> None:
        while self._readers:
            self._readers.pop().close()
        if self._opener.has_opened:
            leave_tidy(self._files)

    def _renewer(self, connect: Callable[[Files], Connection]) -> Callable[[Connection | None], Connection]:
        return lambda previous: self._opener.renew(previous, connect)

    def _read(self, verb: Verb[T]) -> T:
        return GATE.run(partial(self._read_inside, verb))

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
