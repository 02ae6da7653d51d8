"""What the tests of joined transactions do and look at."""

import asyncio
import sqlite3
from contextlib import closing, contextmanager

from sqlalchemy import create_engine

from standfast import Standfast
from standfast.stores.contract import count_states

SHORT = 0.2
"""Seconds that a connection of these tests waits for another writer."""


def make_app(url, **settings):
    app = Standfast(url, **settings)

    @app.task
    def pack(order: int) -> None: ...

    return app


@contextmanager
def alchemy(path, **options):
    engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": SHORT}, **options)
    try:
        yield engine
    finally:
        engine.dispose()


def run(work):
    """Run async code on an engine of SQLAlchemy, which belongs to one event loop."""
    return asyncio.run(work)


def jobs(app):
    return sum(app.call(count_states(app.verbs)).values())


def orders(path):
    with closing(sqlite3.connect(path)) as look:
        return look.execute("SELECT count(*) FROM orders").fetchone()[0]


def pack(app, connection, order=1, **options):
    return app.tasks["pack"].options(tx=connection, **options).enqueue(order=order)


async def apack(app, connection, order=1, **options):
    return await app.tasks["pack"].options(tx=connection, **options).aenqueue(order=order)
