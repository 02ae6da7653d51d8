"""Jobs that are done in steps and wait, for fleets: a bank that knows each idempotency key once, and bookings.

The bank is a file of its own beside the ledger: a service that has nothing to do with the store. Bookings are rows
in the store's own database, with nothing to keep them from being there twice but the step that writes them.
"""

import os
import random
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ledger import VARIABLE, Ledger

from standfast import Context, Standfast, WaitTimeoutError

PATIENCE = 60
STEPS = ("charge", "reserve", "ship", "mail", "close")
SHARED = ("reserve", "close")
"""The steps whose rows are in the store's own database, where it has transactions."""


def ledger() -> Ledger:
    return Ledger(Path(os.environ[VARIABLE]))


def bank(beside: Path) -> sqlite3.Connection:
    """Return the bank beside a ledger; a call may come twice, and counts once for each key."""
    own = sqlite3.connect(beside.with_name("bank.db"), timeout=PATIENCE)
    own.execute("CREATE TABLE IF NOT EXISTS effect (key TEXT PRIMARY KEY, job TEXT, step TEXT)")
    own.execute("CREATE TABLE IF NOT EXISTS call (job TEXT, step TEXT)")
    return own


def call_bank(ctx: Context, step: str) -> str:
    linger()
    with closing(bank(Path(os.environ[VARIABLE]))) as own, own:
        own.execute("INSERT INTO call VALUES (?, ?)", (ctx.job_id, step))
        own.execute("INSERT OR IGNORE INTO effect VALUES (?, ?, ?)", (ctx.idempotency_key, ctx.job_id, step))
    linger()
    return step


def linger() -> None:
    """Take a moment, so that a kill may come anywhere."""
    time.sleep(random.uniform(0, 0.03))


# -- rows in the store's own database --------------------------------------------------------------------------


def connect(url: str) -> Any:
    """Return a connection to the database of a store."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return sqlite3.connect(parts.path, timeout=PATIENCE)
    schema = parse_qs(parts.query).get("schema", ["standfast"])[0]
    import psycopg  # noqa: PLC0415 - most processes need none

    return psycopg.connect(parts._replace(query="").geturl(), options=f"-c search_path={schema}")


def create_tables(url: str) -> None:
    with closing(connect(url)) as own:
        own.execute("CREATE TABLE booking (job TEXT, step TEXT)")
        own.commit()


def book(own: Any, job: str, step: str) -> str:
    linger()
    mark = "?" if isinstance(own, sqlite3.Connection) else "%s"
    own.execute(f"INSERT INTO booking VALUES ({mark}, {mark})", (job, step))
    linger()
    return step


# -- tasks -----------------------------------------------------------------------------------------------------


def run_order(ctx: Context, store: str) -> list[str]:
    done = []
    for step in STEPS:
        if step in SHARED and not store.startswith("redis"):
            with closing(connect(store)) as own:
                done.append(ctx.step(step, book, own, ctx.job_id, step, tx=own))
        else:
            done.append(ctx.step(step, call_bank, ctx, step))
        linger()
    return done


def approve(ctx: Context) -> list[Any]:
    ledger().write("start", ctx)
    heard = []
    for number in range(3):
        heard.append(ctx.wait_for("approved"))
        ctx.step(f"note-{number}", call_bank, ctx, f"note-{number}")
    return heard


async def approve_async(ctx: Context) -> list[Any]:
    ledger().write("start", ctx)
    heard = []
    for number in range(3):
        heard.append(await ctx.await_for("approved"))
        await ctx.astep(f"note-{number}", call_bank, ctx, f"note-{number}")
    return heard


async def hesitate(ctx: Context, seconds: float) -> str:
    await ctx.asleep_until(seconds)
    try:
        heard: str = await ctx.await_for("approved", timeout=seconds)
    except WaitTimeoutError:
        return "nobody came"
    return heard


async def quick(ctx: Context) -> None:
    ledger().write("start", ctx)


def make_app(url: str | None = None) -> Standfast:
    app = Standfast(url, lease=2, beat=0.25, grace=5, store_timeout=5)
    store = app.settings.url

    @app.task(max_attempts=1000, backoff=0.01)
    def order(ctx: Context) -> list[str]:
        return run_order(ctx, store)

    @app.task(max_attempts=1000, backoff=0.01, isolation="process")
    def order_in_a_cell(ctx: Context) -> list[str]:
        ctx.wait_for("go", timeout=600)
        return run_order(ctx, store)

    app.task(max_attempts=1)(approve)
    for handler in (approve_async, hesitate, quick):
        app.task(handler)
    return app


app = make_app() if VARIABLE in os.environ else None
