"""Connections and sessions of SQLAlchemy."""

from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from connections.faces import Async, Sync, for_asyncpg, for_libpq


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


class AlchemySessionPsycopg2(AlchemyPsycopg2, AlchemySession):
    pass


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
