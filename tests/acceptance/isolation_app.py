"""An app of isolated tasks: handlers that do well in a process of their own, and some that do not."""

import asyncio
import ctypes
import logging
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from ledger import VARIABLE, Ledger

from standfast import Context, Secret, Snooze, Standfast

MEGABYTE = 1024**2

tenant: ContextVar[str] = ContextVar("tenant", default="nobody")
opened_in: list[int] = []
"""The process in which the lifespan was entered."""


@dataclass
class Sum:
    """What `add` returns."""

    total: int
    pid: int
    tenant: str
    opened_in: int


@dataclass
class LargeSum(Sum):
    """A subclass, which would be read back without what it adds."""

    digits: int = 0


def make_app(url: str | None = None) -> Standfast:
    app = Standfast(url)
    for declare in (add, aadd, obey, ignore, hold_interpreter, nap, noop, folder):
        app.task(isolation="process")(declare)
    app.task(isolation="process", max_attempts=1, name="noop_once")(noop)
    for declare in (spin_with_subprocess, await_for_ever):
        app.task(isolation="process", timeout=1.0, max_attempts=1)(declare)
    for declare in (die, fail_with_secret):
        app.task(isolation="process", max_attempts=2, backoff=0.01)(declare)
    for declare in (take_at_once, take_in_steps, take_in_subprocess):
        app.task(isolation="process", memory="256MB", max_attempts=1)(declare)
    app.task(isolation="process")(take)
    app.task(isolation="process", memory="256MB", name="take_within_limit")(take)
    app.task(isolation="process", max_attempts=3, backoff=0.01, retry_on=OSError, discard_on=KeyError)(go_wrong)
    app.task(isolation="process")(snooze_once)
    app.task(isolation="process")(return_another_type)
    app.task(isolation="process")(write_order)
    app.task(nap_beside)
    app.task(name="ignore_beside")(ignore)
    app.task(go_elsewhere)
    app.middleware(for_tenant)
    app.lifespan(open_here)
    return app


async def for_tenant(ctx: Context, call_next: Callable[[], Awaitable[Any]]) -> Any:
    tenant.set(ctx.metadata.get("tenant", "nobody"))
    return await call_next()


async def open_here(_: Standfast) -> AsyncIterator[None]:
    spec = sys.modules["__main__"].__spec__
    if spec is not None and spec.name == "standfast.hosts.subprocess":
        while beside_ledger("slow").exists():  # noqa: ASYNC110 - a file rings no bell
            await asyncio.sleep(0.02)
        if beside_ledger("closed").exists():
            raise ConnectionError("the database is away")
    opened_in.append(os.getpid())
    yield
    opened_in.clear()


def ledger() -> Ledger:
    return Ledger(Path(os.environ[VARIABLE]))


def beside_ledger(name: str) -> Path:
    return Path(os.environ[VARIABLE]).with_name(name)


def note(name: str, *numbers: int) -> None:
    """Leave numbers in a file beside the ledger."""
    file = beside_ledger(name)
    begun = file.with_suffix(".begun")
    begun.write_text(" ".join(map(str, numbers)))
    begun.rename(file)


def add(ctx: Context, a: int, b: int) -> Sum:
    ctx.log.warning("adding %s and %s", a, b)
    return Sum(a + b, os.getpid(), tenant.get(), opened_in[-1])


async def aadd(ctx: Context, a: int, b: int) -> Sum:
    await asyncio.sleep(0)
    return add(ctx, a, b)


def folder() -> str:
    return str(Path.cwd())


def noop() -> None:
    pass


def nap(ctx: Context, seconds: float) -> None:
    ledger().write("start", ctx)
    time.sleep(seconds)
    ledger().write("end", ctx)


async def nap_beside(ctx: Context, seconds: float) -> None:
    """Nap in the worker's own process."""
    ledger().write("start", ctx)
    await asyncio.sleep(seconds)
    ledger().write("end", ctx)


def go_elsewhere(folder: str) -> None:
    """Change the folder in which the worker is."""
    os.chdir(folder)


def spin_with_subprocess(ctx: Context) -> None:
    """Spin for ever, beside a subprocess that heeds nothing but SIGKILL."""
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as beside:
        assert beside.stdout is not None
        beside.stdout.readline()
        note("spinning", os.getpid(), beside.pid)
        ledger().write("start", ctx)
        while True:
            pass


async def await_for_ever() -> None:
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            continue


def die(ctx: Context, how: str) -> None:
    logging.getLogger("app").warning("about to die by %s", how)
    ctx.progress(3, 7)
    if how == "segv":
        ctypes.string_at(0)
    elif how == "exit":
        os._exit(7)
    else:
        os.kill(os.getpid(), signal.SIGKILL)


def take_at_once() -> int:
    return len(bytearray(1024 * MEGABYTE))


def take_in_steps() -> int:
    taken = []
    for _ in range(128):
        taken.append(bytearray(8 * MEGABYTE))
        time.sleep(0.001)
    return len(taken)


def take_in_subprocess() -> None:
    code = "import time; taken = bytearray(270 * 1024**2); time.sleep(600)"
    subprocess.run([sys.executable, "-c", code], check=True)


def take(megabytes: int) -> int:
    bytearray(megabytes * MEGABYTE)
    return os.getpid()


def go_wrong(kind: str) -> None:
    raise {"os": OSError, "key": KeyError, "value": ValueError}[kind]("on purpose")


def return_another_type() -> Sum:
    return LargeSum(1, 2, "acme", 3)


def snooze_once(ctx: Context) -> int:
    if ctx.fence == 1:
        raise Snooze(0.05)
    return ctx.attempt


async def obey(ctx: Context) -> None:
    ledger().write("start", ctx)
    ctx.progress(1, 2)
    try:
        await asyncio.sleep(600)
    finally:
        ledger().write("end", ctx)


def ignore(ctx: Context) -> None:
    ledger().write("start", ctx)
    ctx.progress(1, 2)
    while True:
        time.sleep(0.05)


def hold_interpreter(ctx: Context, seconds: float) -> None:
    """Sleep in C without letting go of the GIL, beside a subprocess."""
    with subprocess.Popen(["sleep", str(seconds)]) as beside:
        note("holding", os.getpid(), beside.pid)
        ledger().write("start", ctx)
        ctypes.PyDLL(None).usleep(round(seconds * 1e6))


def fail_with_secret(password: Annotated[str, Secret]) -> None:
    logging.getLogger("app").warning("the password is %s", password)
    raise RuntimeError(f"cannot log in with {password}")


def write_order(ctx: Context, database: str, table: str) -> str | None:
    """Write a row and complete the job in one transaction, in the store's own database."""
    connection = connect(database)
    with ctx.transaction(connection) as tx:
        connection.execute(f"INSERT INTO {table} VALUES (7)")
        tx.result = f"written in {os.getpid()}"
    connection.close()
    return None


def connect(database: str) -> Any:
    if database.startswith("postgresql"):
        import psycopg  # noqa: PLC0415 - most processes need none

        return psycopg.connect(database, autocommit=True)
    return sqlite3.connect(database, isolation_level=None)


app = make_app()
