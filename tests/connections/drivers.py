"""Connections of drivers, as they are."""

import asyncpg
import psycopg
import psycopg2

from connections.faces import Async, Sync, for_asyncpg, for_libpq


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
        self.tx = psycopg2.connect(**for_libpq(url))

    def do(self, sql):
        with self.tx.cursor() as cursor:
            cursor.execute(sql)


class Psycopg2Autocommit(Psycopg2):
    def __init__(self, url):
        super().__init__(url)
        self.tx.autocommit = True

    def begin(self):
        self.do("BEGIN")

    def commit(self):
        self.do("COMMIT")

    def rollback(self):
        self.do("ROLLBACK")


class Psycopg2Block(Psycopg2):
    """Inside `with connection:`, which ends the transaction and leaves the connection open."""

    def begin(self):
        self.tx.__enter__()

    def commit(self):
        self.tx.__exit__(None, None, None)

    def rollback(self):
        undone = ZeroDivisionError()
        self.tx.__exit__(type(undone), undone, None)


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
        try:
            await self._pool.release(self.tx)
            await self._pool.close()
        finally:
            self._pool.terminate()
