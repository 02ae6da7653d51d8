"""A verb that has done everything and is not committed yet: what a second one does meanwhile is what tests ask."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import cycle
from typing import Any, TypeVar

import psycopg
from psycopg import sql

from conformance import Harness
from standfast.stores.contract import count_states
from standfast.stores.postgres.store import PostgresBackend
from standfast.stores.postgres.url import parse_address
from standfast.stores.verb import Last, Steps, Try, Verb
from standfast.testing import FakeClock

T = TypeVar("T")

LONG = 30.0
"""Seconds within which everything has happened, unless something hangs."""


class Crossing(Harness):
    """A store in which two verbs cross each other's way."""

    def __init__(self, url: str) -> None:
        clock = FakeClock()
        super().__init__(PostgresBackend(url, clock=clock), clock)
        self.run(count_states(self.verbs))
        # One connection for beats is all that a process has: each of those who cross has to be another.
        self._others = [PostgresBackend(url, clock=clock) for _ in range(3)]
        self._in_turn = cycle(self._others)
        address = parse_address(url)
        self.schema = address.schema
        self._threads = ThreadPoolExecutor(4)
        self._conninfo = address.conninfo
        self.own = self.connect()

    def close(self) -> None:
        self._threads.shutdown()
        self.own.close()
        for backend in (self.backend, *self._others):
            backend.close()

    def connect(self) -> psycopg.Connection[Any]:
        """Return a connection that is not the store's."""
        return psycopg.connect(self._conninfo, autocommit=True, prepare_threshold=None)

    @contextmanager
    def user_connection(self) -> Iterator[psycopg.Connection[Any]]:
        """Give a connection of a user, whose transactions end when the user says so."""
        with closing(self.connect()) as user:
            user.autocommit = False
            yield user

    def later(self, verb: Verb[T]) -> Future[T]:
        """Run a verb in a thread, as another process would."""
        return self._threads.submit(next(self._in_turn).run, verb)

    @contextmanager
    def underway(self, verb: Verb[T]) -> Iterator[Callable[[], T]]:
        """Run all of a verb but its commit; that comes with a call of what is given, which returns the answer."""
        done, commit = threading.Event(), threading.Event()
        held = Verb(verb.name, verb.access, _held(verb.steps, done, commit), verb.wakes, verb.tells)
        answer = self.later(held)

        def go_on() -> T:
            commit.set()
            return answer.result(LONG)

        try:
            assert done.wait(LONG)
            yield go_on
        finally:
            go_on()

    @contextmanager
    def locked(self, job_id: str) -> Iterator[None]:
        """Hold the claim of a job, as a cancel does."""
        with self.own.transaction():
            self.own.execute(self.named("SELECT FROM {}.claim WHERE id = %s FOR UPDATE"), (job_id,))
            yield

    def wait_until_it_waits(self, how_many: int = 1) -> None:
        """Return once so many sessions wait for a lock of another."""
        give_up_at = time.monotonic() + LONG
        with self.connect() as watcher:
            while (waiting := self._waiting(watcher)) < how_many:
                assert time.monotonic() < give_up_at, f"{waiting} of {how_many} wait"
                time.sleep(0.002)

    def named(self, statement: str) -> sql.Composed:
        """Return a statement about the tables of this store."""
        return sql.SQL(statement).format(sql.Identifier(self.schema))

    def _waiting(self, watcher: psycopg.Connection[Any]) -> int:
        found = watcher.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND strpos(query, %s) > 0",
            (f'"{self.schema}"',),
        ).fetchone()
        assert found is not None
        return int(found[0])


def _held(steps: Steps[T], done: threading.Event, commit: threading.Event) -> Steps[T]:
    """Run the steps without saying which is the last, and do not return before it is time to commit."""
    try:
        statement = next(steps)
        while True:
            answer = yield statement.statement if isinstance(statement, Last | Try) else statement
            statement = steps.send(answer)
    except StopIteration as stop:
        done.set()
        assert commit.wait(LONG)
        value: T = stop.value
        return value
    finally:
        done.set()
