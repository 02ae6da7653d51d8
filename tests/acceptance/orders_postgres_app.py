"""A shop whose orders and jobs share a PostgreSQL database, for `PostgresOrders` to copy beside its URL.

As a program it is a customer: it places orders, each a row and a job in one transaction, and gives some up.
"""

import asyncio
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from connections import ASYNC, SYNC, kind, open_own
from standfast import Context, Standfast

FOLDER = Path(__file__).resolve().parent
SAID = json.loads((FOLDER / "said.json").read_text())
URL, OWN, WAYS = SAID["url"], SAID["schema"], SAID["kinds"]
"""The store, the schema of the shop's own tables, and the kinds of connection that customers use, by turns."""

app = Standfast(URL, lease=3, beat=0.25, grace=5, store_timeout=5)


def note(ctx: Context, what: str) -> None:
    """Write one effect into the ledger: one write, so lines of many processes do not mix."""
    line = json.dumps({"job": ctx.job_id, "fence": ctx.fence, "what": what}).encode() + b"\n"
    file = os.open(FOLDER / "ledger", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(file, line)
    finally:
        os.close(file)


def create_tables() -> None:
    app.prepare()
    with open_own("psycopg", URL) as own:
        own.do(f"CREATE SCHEMA {OWN}")
        own.do(f"CREATE TABLE {OWN}.placed (id text)")
        own.do(f"CREATE TABLE {OWN}.booking (job text, fence integer)")
        own.commit()


def moment() -> float:
    """Return a time to sleep, so that a kill may come anywhere."""
    return random.uniform(0, 0.05)


# -- a job per order -------------------------------------------------------------------------------------------


@app.task
def ship(ctx: Context, order: str) -> str:
    note(ctx, order)
    return order


def place_orders(customer: str, count: int) -> None:
    """Place orders; give every third one up. The number of the customer decides by which kind of connection."""
    way = WAYS[int(customer.lstrip("c")) % len(WAYS)]
    with open_own(way, URL) as own:
        for number in range(count):
            order = f"{customer}-{number}"
            own.begin()
            if number % 2:
                own.enqueue(ship, order=order)
            own.do(f"INSERT INTO {OWN}.placed VALUES ('{order}')")
            time.sleep(moment() / 5)
            if not number % 2:
                own.enqueue(ship, order=order)
            own.rollback() if number % 3 == 0 else own.commit()


# -- a booking per job -----------------------------------------------------------------------------------------


def booked(ctx: Context) -> str:
    return f"INSERT INTO {OWN}.booking VALUES ('{ctx.job_id}', {ctx.fence})"


@app.task(max_attempts=1000, backoff=0.01)
def book(ctx: Context) -> int:
    note(ctx, "start")
    with open_own(random.choice(list(SYNC)), URL) as own:
        time.sleep(moment())
        with ctx.transaction(own.tx) as tx:
            own.do(booked(ctx))
            time.sleep(moment())
            tx.result = ctx.fence
        time.sleep(moment())
    return ctx.fence


@app.task(max_attempts=1000, backoff=0.01)
async def book_async(ctx: Context) -> int:
    note(ctx, "start")
    async with kind(random.choice(list(ASYNC))).inside(URL) as own:
        await asyncio.sleep(moment())
        async with ctx.transaction(own.tx) as tx:
            await own.ado(booked(ctx))
            await asyncio.sleep(moment())
            tx.result = ctx.fence
        await asyncio.sleep(moment())
    return ctx.fence


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@app.task
def die_once(ctx: Context, where: str) -> int:
    """End the process by `kill -9`, in the first run only, inside the transaction or right after it."""
    note(ctx, "start")
    with open_own("psycopg", URL) as own:
        with ctx.transaction(own.tx) as tx:
            own.do(booked(ctx))
            tx.result = ctx.fence
            if where == "inside" and ctx.fence == 1:
                die()
        if where == "after" and ctx.fence == 1:
            die()
    return ctx.fence


@app.task(backoff=0.01)
def raise_once_inside(ctx: Context) -> None:
    with open_own("django", URL) as own, ctx.transaction(own.tx):
        own.do(booked(ctx))
        if ctx.attempt == 1:
            raise ValueError("inside")


@app.task
async def linger_after(ctx: Context) -> str:
    """Go on after the transaction until it is cancelled, and say how that ends."""
    async with kind("asyncpg").inside(URL) as own, ctx.transaction(own.tx) as tx:
        await own.ado(booked(ctx))
        tx.result = "stays"
    note(ctx, "committed")
    try:
        await asyncio.sleep(30)
    finally:
        note(ctx, "ended")
    return "never"


@app.task
def linger_in_thread(ctx: Context) -> str:
    """Go on after the transaction until it is told to stop."""
    with open_own("sqlalchemy", URL) as own, ctx.transaction(own.tx) as tx:
        own.do(booked(ctx))
        tx.result = "stays"
    note(ctx, "committed")
    while not ctx.cancelled:
        ctx.progress(1)
        time.sleep(0.05)
    note(ctx, "ended")
    ctx.raise_if_cancelled()
    return "never"


if __name__ == "__main__":
    place_orders(sys.argv[1], int(sys.argv[2]))
