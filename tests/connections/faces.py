"""What all of them have in common: one face for tests, and what a store's URL means to their libraries."""

import asyncio
from contextlib import asynccontextmanager

from psycopg.conninfo import conninfo_to_dict

OURS = {"schema", "pooler"}


def for_libpq(url: str) -> dict[str, str]:
    """Return what a store's URL says to libpq."""
    start, _, query = url.partition("?")
    theirs = [pair for pair in query.split("&") if pair.partition("=")[0] not in OURS]
    return {name: str(value) for name, value in conninfo_to_dict(f"{start}?{'&'.join(theirs)}").items()}


def for_asyncpg(url: str) -> dict[str, str]:
    """Return the same in asyncpg's names."""
    said = for_libpq(url)
    names = {"host": "host", "port": "port", "user": "user", "password": "password", "dbname": "database"}
    names["sslmode"] = "ssl"
    return {names[name]: value for name, value in said.items() if name in names}


class Sync:
    """A connection of a sync library."""

    is_async = False
    tx = None

    def begin(self):
        """Begin a transaction, where the library would not."""

    def do(self, sql):
        self.tx.execute(sql)

    def enqueue(self, task, many=None, options=None, **arguments):
        bound = task.options(tx=self.tx, **options or {})
        return bound.enqueue(**arguments) if many is None else bound.enqueue_many(many)

    def run_verb(self, backend, verb):
        return backend.run_in(verb, self.tx)

    def commit(self):
        self.tx.commit()

    def rollback(self):
        self.tx.rollback()

    def close(self):
        self.tx.close()


class Async:
    """A connection of an async library, and the event loop that it belongs to."""

    is_async = True
    tx = None

    def __init__(self, url):
        self._runner = asyncio.Runner()
        self.wait(self._open(url))

    @classmethod
    @asynccontextmanager
    async def inside(cls, url):
        """Open one in the event loop that runs."""
        own = cls.__new__(cls)
        await own._open(url)
        try:
            yield own
        finally:
            await own._close()

    def wait(self, work):
        return self._runner.run(work)

    def begin(self):
        """Begin a transaction, where the library would not."""

    def do(self, sql):
        self.wait(self.ado(sql))

    async def ado(self, sql):
        await self.tx.execute(sql)

    def enqueue(self, task, many=None, options=None, **arguments):
        bound = task.options(tx=self.tx, **options or {})
        return self.wait(bound.aenqueue(**arguments) if many is None else bound.aenqueue_many(many))

    def run_verb(self, backend, verb):
        return self.wait(backend.arun_in(verb, self.tx))

    def commit(self):
        self.wait(self.tx.commit())

    def rollback(self):
        self.wait(self.tx.rollback())

    def close(self):
        try:
            self.wait(self._close())
        finally:
            self._runner.close()

    async def _close(self):
        await self.tx.close()
