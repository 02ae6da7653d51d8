"""Connections and sessions of SQLAlchemy, sync and async: the user's commit decides there too."""

import asyncio
import subprocess
import sys
from contextlib import asynccontextmanager, nullcontext, suppress

import pytest
from joining import alchemy, apack, jobs, orders, pack, run
from sqlalchemy import event, text
from sqlalchemy.exc import PendingRollbackError
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from connections import PROVE, cancelled_at
from standfast import ConfigurationError
from standfast.stores.sqlite.transactions import ROLLED_BACK


def test_a_connection_of_sqlalchemy(shop, path):
    with alchemy(path) as engine, engine.connect() as own:
        own.execute(text("INSERT INTO orders DEFAULT VALUES"))
        pack(shop, own)
        own.rollback()
        assert (jobs(shop), orders(path)) == (0, 0)
        pack(shop, own)
        own.execute(text("INSERT INTO orders DEFAULT VALUES"))
        own.commit()
    assert (jobs(shop), orders(path)) == (1, 1)


def test_a_begin_block_of_sqlalchemy(shop, path):
    with alchemy(path) as engine:
        with engine.begin() as own:
            pack(shop, own)
            assert jobs(shop) == 0
        assert jobs(shop) == 1
        with suppress(ZeroDivisionError), engine.begin() as own:
            pack(shop, own)
            raise ZeroDivisionError
    assert jobs(shop) == 1


def test_sessions_of_sqlalchemy(shop, path):
    with alchemy(path) as engine:
        registry = scoped_session(sessionmaker(engine))
        for session in (Session(engine), registry):
            before = jobs(shop)
            pack(shop, session)
            session.rollback()
            assert jobs(shop) == before
            pack(shop, session)
            session.execute(text("INSERT INTO orders DEFAULT VALUES"))
            session.commit()
            assert jobs(shop) == before + 1
            session.close()


WITHOUT_GREENLET = """
import sys


class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "greenlet":
            raise ModuleNotFoundError(name)


sys.meta_path.insert(0, Refusing())

from sqlalchemy import create_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from standfast import Standfast

app = Standfast(f"sqlite:///{sys.argv[1]}")


@app.task
def pack() -> None: ...


engine = create_engine(f"sqlite:///{sys.argv[1]}")
for own in (Session(engine), scoped_session(sessionmaker(engine)), engine.connect()):
    pack.options(tx=own).enqueue()
    own.commit()
    own.close()
engine.dispose()
app.close()
"""


def test_sync_sessions_need_no_greenlet(shop, path):
    """SQLAlchemy brings it for its async classes only, since version 2.1."""
    command = [sys.executable, "-c", WITHOUT_GREENLET, str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert jobs(shop) == 3


def test_a_nested_block_of_sqlalchemy_that_is_rolled_back(shop, path):
    with alchemy(path) as engine, engine.begin() as own:
        pack(shop, own)
        nested = own.begin_nested()
        pack(shop, own)
        nested.rollback()
    assert jobs(shop) == 1


def test_sqlalchemy_that_begins_by_its_own_event(shop, path):
    """As its documentation advises for savepoints: the driver begins nothing, an event does."""
    with alchemy(path) as engine:
        event.listen(engine, "connect", lambda dbapi, _: setattr(dbapi, "isolation_level", None))
        event.listen(engine, "begin", lambda own: own.exec_driver_sql("BEGIN"))
        with engine.begin() as own:
            pack(shop, own)
            assert jobs(shop) == 0
        assert jobs(shop) == 1


@asynccontextmanager
async def _closed_at_the_end(scoped):
    yield scoped
    await scoped.remove()


@pytest.mark.parametrize("kind", ["connection", "session", "scoped", "scope"])
def test_async_connections_of_sqlalchemy(shop, path, kind):
    async def use():
        engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
        scoped = async_scoped_session(async_sessionmaker(engine), asyncio.current_task)
        makes = {
            "connection": engine.connect,
            "session": lambda: AsyncSession(engine),
            "scoped": scoped,
            "scope": lambda: _closed_at_the_end(scoped),
        }
        async with makes[kind]() as own:
            await own.execute(text("INSERT INTO orders DEFAULT VALUES"))
            await apack(shop, own)
            await own.rollback()
            assert (jobs(shop), orders(path)) == (0, 0)
            await apack(shop, own, key="order-1")
            again = await apack(shop, own, key="order-1")
            assert not again.created
            await own.execute(text("INSERT INTO orders DEFAULT VALUES"))
            await own.commit()
            assert (jobs(shop), orders(path)) == (1, 1)
            bound = shop.tasks["pack"].options(tx=own)
            await bound.aenqueue_many([{"order": number} for number in range(20)])
            await own.commit()
        await engine.dispose()

    run(use())
    assert jobs(shop) == 21


@pytest.mark.parametrize("kind", ["connection", "session"])
def test_a_sync_enqueue_refuses_an_async_connection(shop, path, kind):
    async def use():
        engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
        async with engine.connect() if kind == "connection" else AsyncSession(engine) as own:
            with pytest.raises(ConfigurationError, match=r"^your Async\w+ has to be awaited: use aenqueue"):
                pack(shop, own)
        await engine.dispose()

    run(use())


@pytest.mark.parametrize("ours", [True, False])
def test_a_cancelled_enqueue_is_not_in_the_transaction(shop, path, ours):
    """At whichever line, whether the user had begun or not: that goes on, or a note says why not."""

    async def use():
        stored, placed, said, moment, is_reached = 0, 0, set(), 0, True
        engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
        while is_reached:
            moment += 1 if PROVE else 4
            async with engine.connect() as own:
                if not ours:
                    await own.execute(text("INSERT INTO orders DEFAULT VALUES"))
                is_reached, notes = await cancelled_at(moment, apack(shop, own))
                said.add("enqueued" if notes is None else "".join(notes))
                with pytest.raises(PendingRollbackError) if notes else nullcontext():
                    await own.execute(text("INSERT INTO orders DEFAULT VALUES"))
                    await own.commit()
                    stored += notes is None
                    placed += 1 + (not ours)
            assert (jobs(shop), orders(path)) == (stored, placed), moment
        await engine.dispose()
        return said

    said = run(use())  # a note only if it came while the thread of the connection was at the RELEASE
    assert {"", "enqueued"} <= said <= {"", "enqueued", ROLLED_BACK}
