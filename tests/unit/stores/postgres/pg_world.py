"""Verbs of the tests' own, and engines to run them: what an engine promises does not depend on what jobs are."""

import time
from contextlib import contextmanager
from itertools import count

import psycopg

from standfast.stores.postgres.engine import Engine
from standfast.stores.postgres.notify import PostgresBell, sounds
from standfast.stores.postgres.url import parse_address
from standfast.stores.verb import Access, Last, Query, Verb

LONG = 30.0
"""Longer than any test: who waits so long and returns was woken."""

_locks = count(1_000_001)


class World:
    """An engine with its bell, and how often it was told to forget its marks."""

    def __init__(self, url, timeout=10.0):
        self.address = parse_address(url)
        self.forgotten = 0
        self._gates = {}
        tones = sounds(self.address.schema)
        self.sounds = tones
        self.engine = Engine(self.address, timeout, tones, self._forget)
        self.bell = PostgresBell(self.engine.ring, self.engine.listen, tones, pooled=self.address.pooled)

    def _forget(self):
        self.forgotten += 1

    def ask(self, sql, *params, **how):
        """Run one statement as a verb of its own, and return its rows."""
        return self.engine.run(query(sql, *params, **how))

    @property
    def user_connection(self):
        """A connection that is not the engine's."""
        return psycopg.connect(self.address.conninfo, autocommit=True)

    @contextmanager
    def table(self):
        """Give the name of a table with a number and a text in it."""
        name = f'"{self.address.schema}".things'
        self.engine.prepare()
        with self.user_connection as own:
            own.execute(f"CREATE TABLE {name} (number bigint PRIMARY KEY, word text)")
        yield name

    @contextmanager
    def closed_gate(self):
        """Hold a lock; give the statement that waits for it."""
        number = next(_locks)
        statement = f"SELECT pg_advisory_xact_lock_shared({number})"
        with self.user_connection as own:
            own.execute("SELECT pg_advisory_lock(%s)", (number,))
            self._gates[statement] = own
            yield statement

    def open_gate(self, statement):
        """Let go of the lock."""
        self._gates[statement].execute("SELECT pg_advisory_unlock_all()")

    def wait_for_waiters(self, how_many, waits):
        """Return once so many sessions wait in this statement."""
        give_up_at = time.monotonic() + LONG
        with self.user_connection as own:
            while True:
                found = own.execute(
                    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query = %s", (waits,)
                ).fetchone()[0]
                if found >= how_many:
                    return
                assert time.monotonic() < give_up_at, f"{found} of {how_many} wait"
                time.sleep(0.005)


def of_steps(steps, access=Access.WRITE, **how):
    """Return a verb of these steps."""
    return Verb("test", access, steps, **how)


def query(sql, *params, access=Access.WRITE, **how):
    """Return a verb of one statement."""

    def steps():
        return (yield Last(Query(sql, params)))

    return of_steps(steps(), access, **{"again": steps, **how})
