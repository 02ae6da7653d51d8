"""Connections of the user's own to PostgreSQL, of every kind that a store can join, behind one face for tests.

with open_own("asyncpg", url) as own:
    own.begin()
    own.do("INSERT INTO orders DEFAULT VALUES")
    own.enqueue(task, order=1)
    own.commit()

Async ones have an event loop of their own, so that tests and customers need none.
"""

import asyncio
from collections.abc import Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib.util import find_spec

import asyncpg
import psycopg
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

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
        self.wait(self._close())
        self._runner.close()

    async def _close(self):
        await self.tx.close()


# -- drivers ---------------------------------------------------------------------------------------------------


class Psycopg(Sync):
    def __init__(self, url):
        self.tx = psycopg.connect(**for_libpq(url))


class PsycopgAutocommit(Sync):
    def __init__(self, url):
        self.tx = psycopg.connect(**for_libpq(url), autocommit=True)

    def begin(self):
        self.tx.execute("BEGIN")


class PsycopgBlock(Sync):
    """Inside `with connection.transaction()`."""

    def __init__(self, url):
        self.tx = psycopg.connect(**for_libpq(url), autocommit=True)

    def begin(self):
        self._block = self.tx.transaction()
        self._block.__enter__()

    def commit(self):
        self._block.__exit__(None, None, None)

    def rollback(self):
        undone = psycopg.Rollback()
        self._block.__exit__(type(undone), undone, None)


class Psycopg2(Sync):
    def __init__(self, url):
        import psycopg2  # noqa: PLC0415 - not everybody has it

        self.tx = psycopg2.connect(**for_libpq(url))

    def do(self, sql):
        with self.tx.cursor() as cursor:
            cursor.execute(sql)


class AsyncPsycopg(Async):
    async def _open(self, url):
        self.tx = await psycopg.AsyncConnection.connect(**for_libpq(url))


class Asyncpg(Async):
    async def _open(self, url):
        self.tx = await asyncpg.connect(**for_asyncpg(url))

    def begin(self):
        self._block = self.tx.transaction()
        self.wait(self._block.start())

    def commit(self):
        self.wait(self._block.commit())

    def rollback(self):
        self.wait(self._block.rollback())


class AsyncpgPool(Asyncpg):
    async def _open(self, url):
        self._pool = await asyncpg.create_pool(**for_asyncpg(url), min_size=1, max_size=1)
        self.tx = await self._pool.acquire()

    async def _close(self):
        await self._pool.release(self.tx)
        await self._pool.close()


# -- SQLAlchemy ------------------------------------------------------------------------------------------------


class Alchemy(Sync):
    driver = "psycopg"

    def __init__(self, url):
        self._engine = create_engine(f"postgresql+{self.driver}://", connect_args=for_libpq(url))
        self.tx = self._use()

    def _use(self):
        return self._engine.connect()

    def do(self, sql):
        self.tx.execute(text(sql))

    def close(self):
        super().close()
        self._engine.dispose()


class AlchemySession(Alchemy):
    def _use(self):
        return Session(self._engine)


class AlchemyScoped(Alchemy):
    def _use(self):
        return scoped_session(sessionmaker(self._engine))


class AlchemyPsycopg2(Alchemy):
    driver = "psycopg2"


class AsyncAlchemy(Async):
    driver = "psycopg"
    arguments = staticmethod(for_libpq)

    async def _open(self, url):
        self._engine = create_async_engine(f"postgresql+{self.driver}://", connect_args=self.arguments(url))
        self.tx = await self._use()

    async def _use(self):
        return await self._engine.connect()

    async def ado(self, sql):
        await self.tx.execute(text(sql))

    async def _close(self):
        await super()._close()
        await self._engine.dispose()


class AsyncAlchemySession(AsyncAlchemy):
    async def _use(self):
        return AsyncSession(self._engine)


class AsyncAlchemyAsyncpg(AsyncAlchemy):
    driver = "asyncpg"
    arguments = staticmethod(for_asyncpg)


class AsyncAlchemySessionAsyncpg(AsyncAlchemyAsyncpg, AsyncAlchemySession):
    pass


class AsyncAlchemyScopedAsyncpg(AsyncAlchemyAsyncpg):
    async def _use(self):
        return async_scoped_session(async_sessionmaker(self._engine), lambda: None)


# -- Django ----------------------------------------------------------------------------------------------------


def set_up_django(url):
    """Tell Django of the database, once in a process: it knows one set of settings."""
    import django  # noqa: PLC0415 - it is slow to load
    from django.conf import settings  # noqa: PLC0415 - likewise

    if settings.configured:
        return
    said = for_libpq(url)
    names = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
    database = {name: said.get(theirs, "") for name, theirs in names.items()}
    settings.configure(
        DATABASES={
            "default": {"ENGINE": "django.db.backends.postgresql", **database},
            "lite": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
        },
        USE_TZ=True,
    )
    django.setup()


class Django(Sync):
    """Inside `with transaction.atomic()`."""

    def __init__(self, url):
        set_up_django(url)
        from django.db import connection, transaction  # noqa: PLC0415 - it needs the settings

        self.tx = connection
        self._transaction = transaction
        self._block = None

    def begin(self):
        self._block = self._transaction.atomic()
        self._block.__enter__()

    def do(self, sql):
        with self.tx.cursor() as cursor:
            cursor.execute(sql)

    def commit(self):
        block, self._block = self._block, None
        block.__exit__(None, None, None)

    def rollback(self):
        self._transaction.set_rollback(True)
        self.commit()

    def close(self):
        if self._block is not None:
            self.rollback()
        super().close()


KINDS = {
    "psycopg": Psycopg,
    "psycopg-autocommit": PsycopgAutocommit,
    "psycopg-block": PsycopgBlock,
    "psycopg-async": AsyncPsycopg,
    "asyncpg": Asyncpg,
    "asyncpg-pool": AsyncpgPool,
    "sqlalchemy": Alchemy,
    "sqlalchemy-session": AlchemySession,
    "sqlalchemy-scoped": AlchemyScoped,
    "sqlalchemy-async": AsyncAlchemy,
    "sqlalchemy-async-session": AsyncAlchemySession,
    "sqlalchemy-asyncpg": AsyncAlchemyAsyncpg,
    "sqlalchemy-asyncpg-session": AsyncAlchemySessionAsyncpg,
    "sqlalchemy-asyncpg-scoped": AsyncAlchemyScopedAsyncpg,
    "django": Django,
}
if find_spec("psycopg2") is not None:  # in use still; its successor is what everything here has for certain
    KINDS |= {"psycopg2": Psycopg2, "sqlalchemy-psycopg2": AlchemyPsycopg2}


@contextmanager
def open_own(kind: str, url: str) -> Iterator[Sync | Async]:
    """Open a connection of this kind; what it left uncommitted is rolled back by its end."""
    own = KINDS[kind](url)
    try:
        yield own
    finally:
        own.close()
