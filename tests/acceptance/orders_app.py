"""A shop whose orders and jobs share a file, for `Shop` to copy beside its database.

As a program it is a customer: it places orders, each a row and a job in one transaction, and gives some up.
"""

import asyncio
import json
import os
import random
import signal
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path

from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import create_async_engine

from standfast import Context, Standfast

FOLDER = Path(__file__).resolve().parent
DATABASE = FOLDER / "jobs.db"
PATIENCE = 60
"""Seconds that a customer waits for its turn to write."""

app = Standfast(f"sqlite:///{DATABASE}", lease=3, beat=0.25, grace=5, store_timeout=5)


def note(ctx: Context, what: str) -> None:
    """Write one effect into the ledger: one write, so lines of many processes do not mix."""
    line = json.dumps({"job": ctx.job_id, "fence": ctx.fence, "what": what}).encode() + b"\n"
    file = os.open(FOLDER / "ledger", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(file, line)
    finally:
        os.close(file)


def open_database() -> sqlite3.Connection:
    return sqlite3.connect(DATABASE, timeout=PATIENCE)


def create_tables() -> None:
    app.prepare()
    with closing(open_database()) as own:
        own.execute("CREATE TABLE placed (id TEXT)")
        own.execute("CREATE TABLE booking (job TEXT, fence INTEGER)")
        own.commit()


# -- a job per order -------------------------------------------------------------------------------------------


@app.task
def ship(ctx: Context, order: str) -> str:
    note(ctx, order)
    return order


def place_by_sqlite3(order: str, *, give_up: bool) -> None:
    with closing(open_database()) as own:
        own.execute("INSERT INTO placed VALUES (?)", (order,))
        ship.options(tx=own).enqueue(order)
        own.rollback() if give_up else own.commit()


def place_by_sqlalchemy(order: str, *, give_up: bool) -> None:
    with ENGINE.connect() as own:
        ship.options(tx=own).enqueue(order)
        own.execute(text("INSERT INTO placed VALUES (:id)"), {"id": order})
        own.rollback() if give_up else own.commit()


def place_by_async_sqlalchemy(order: str, *, give_up: bool) -> None:
    async def place() -> None:
        engine = create_async_engine(f"sqlite+aiosqlite:///{DATABASE}", connect_args={"timeout": PATIENCE})
        async with engine.connect() as own:
            await own.execute(text("INSERT INTO placed VALUES (:id)"), {"id": order})
            await ship.options(tx=own).aenqueue(order)
            await (own.rollback() if give_up else own.commit())
        await engine.dispose()

    asyncio.run(place())


WAYS = (place_by_sqlite3, place_by_sqlalchemy, place_by_async_sqlalchemy)
ENGINE = create_engine(f"sqlite:///{DATABASE}", connect_args={"timeout": PATIENCE})


def place_orders(customer: str, count: int) -> None:
    """Place orders; give every third one up."""
    for number in range(count):
        random.choice(WAYS)(f"{customer}-{number}", give_up=number % 3 == 0)


# -- a booking per job -----------------------------------------------------------------------------------------


def moment() -> float:
    """Return a time to sleep, so that a kill may come anywhere."""
    return random.uniform(0, 0.05)


@app.task(max_attempts=1000, backoff=0.01)
def book(ctx: Context) -> int:
    note(ctx, "start")
    with closing(open_database()) as own:
        time.sleep(moment())
        with ctx.transaction(own) as tx:
            own.execute("INSERT INTO booking VALUES (?, ?)", (ctx.job_id, ctx.fence))
            time.sleep(moment())
            tx.result = ctx.fence
        time.sleep(moment())
    return ctx.fence


@app.task(max_attempts=1000, backoff=0.01)
async def book_async(ctx: Context) -> int:
    note(ctx, "start")
    engine = create_async_engine(f"sqlite+aiosqlite:///{DATABASE}", connect_args={"timeout": PATIENCE})
    async with engine.connect() as own:
        await asyncio.sleep(moment())
        async with ctx.transaction(own) as tx:
            await own.execute(
                text("INSERT INTO booking VALUES (:job, :fence)"), {"job": ctx.job_id, "fence": ctx.fence}
            )
            await asyncio.sleep(moment())
            tx.result = ctx.fence
        await asyncio.sleep(moment())
    await engine.dispose()
    return ctx.fence


def booked(ctx: Context, own: sqlite3.Connection) -> None:
    own.execute("INSERT INTO booking VALUES (?, ?)", (ctx.job_id, ctx.fence))


def book_for_good(ctx: Context) -> None:
    with closing(open_database()) as own, ctx.transaction(own) as tx:
        booked(ctx, own)
        tx.result = "stays"


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@app.task
def die_once(ctx: Context, where: str) -> int:
    """End the process by `kill -9`, in the first run only, inside the transaction or right after it."""
    note(ctx, "start")
    with closing(open_database()) as own:
        with ctx.transaction(own) as tx:
            booked(ctx, own)
            tx.result = ctx.fence
            if where == "inside" and ctx.fence == 1:
                die()
        if where == "after" and ctx.fence == 1:
            die()
    return ctx.fence


@app.task(backoff=0.01)
def raise_once_inside(ctx: Context) -> None:
    with closing(open_database()) as own, ctx.transaction(own):
        booked(ctx, own)
        if ctx.attempt == 1:
            raise ValueError("inside")


@app.task
def raise_after(ctx: Context) -> str:
    book_for_good(ctx)
    raise ValueError("too late to fail")


@app.task
def return_another(ctx: Context) -> str:
    book_for_good(ctx)
    return "another"


@app.task(timeout=0.3)
async def time_out_after(ctx: Context) -> str:
    book_for_good(ctx)
    await asyncio.sleep(30)
    return "never"


@app.task
async def linger_after(ctx: Context) -> str:
    """Go on after the transaction until it is cancelled, and say how that ends."""
    book_for_good(ctx)
    note(ctx, "committed")
    try:
        await asyncio.sleep(30)
    finally:
        note(ctx, "ended")
    return "never"


@app.task
def linger_in_thread(ctx: Context) -> str:
    """Go on after the transaction until it is told to stop."""
    book_for_good(ctx)
    note(ctx, "committed")
    while not ctx.cancelled:
        ctx.progress(1)
        time.sleep(0.05)
    note(ctx, "ended")
    ctx.raise_if_cancelled()
    return "never"


if __name__ == "__main__":
    place_orders(sys.argv[1], int(sys.argv[2]))
