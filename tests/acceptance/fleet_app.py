"""The app that the fleets of acceptance tests run: handlers that note in the ledger what they do, or misbehave."""

import asyncio
import ctypes
import os
import socket
import subprocess
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from deadly import DEATHS
from ledger import VARIABLE, Ledger

from standfast import Context, Every, Standfast, Window
from standfast.model.clock import SystemClock

SETTINGS = ("hang_limit", "store_timeout", "safety_poll")
"""Settings without an option on the command line; a worker of a test finds them in the environment."""


TICKS = "STANDFAST_TEST_TICKS"
"""Where the environment says how often a schedule fires, if at all."""

TICKS_OVERLAP = "STANDFAST_TEST_TICKS_OVERLAP"
"""And what becomes of times that overlap."""


WINDOW = "STANDFAST_TEST_WINDOW"
"""Where the environment names the file that tells when a queue and a task are closed, if they are at all."""

UNTIL_WINDOW, WINDOW_LENGTH, NOTICE = 8.0, 4.0, 3.0
"""Seconds from the first import of this app to the window; how long it lasts; how long before it jobs are asked."""

SKEW = "STANDFAST_TEST_SKEW"
"""Where the environment says by how many seconds the clock of a worker is ahead, if it is wrong."""


def variable_of(setting: str) -> str:
    return f"STANDFAST_TEST_{setting.upper()}"


def make_app(url: str | None = None) -> Standfast:
    given = {name: float(os.environ[variable_of(name)]) for name in SETTINGS if variable_of(name) in os.environ}
    app = Standfast(url, **given)
    for handler in HANDLERS:
        app.task(handler)
    app.task(name="nap_deaf", timeout=0.2)(nap_in_thread)

    @app.task
    def close_the_app() -> None:
        """Let go of what the handler's own enqueues use; the worker's is another."""
        app.close()

    if TICKS in os.environ:
        every = Every(
            float(os.environ[TICKS]), anchored=True, overlap=os.environ.get(TICKS_OVERLAP, "allow"), misfire="all"
        )
        app.schedule("ticks", app.tasks["nap"], every, seconds=0.0)
    if WINDOW in os.environ:
        begin, end = window_in(Path(os.environ[WINDOW]))
        window = Window(f"{begin:%H:%M:%S}", f"{end:%H:%M:%S}", notice=NOTICE, reason="recycle")
        app.queue("nightly", window=window)
        for handler in (nap, nap_until_asked):
            app.task(name=f"nightly_{handler.__name__}", window=window)(handler)
    return app


def window_in(file: Path) -> tuple[datetime, datetime]:
    """Return when the window of a file begins and ends; whoever comes first decides."""
    begin = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=UNTIL_WINDOW + 1)
    mine = file.with_suffix(f".{os.getpid()}")
    mine.write_text(begin.isoformat())
    with suppress(FileExistsError):
        os.link(mine, file)  # whole or not at all
    begin = datetime.fromisoformat(file.read_text())
    return begin, begin + timedelta(seconds=WINDOW_LENGTH)


def ledger() -> Ledger:
    return Ledger(Path(os.environ[VARIABLE]))


async def nap(ctx: Context, seconds: float) -> None:
    ledger().write("start", ctx)
    await asyncio.sleep(seconds)
    ledger().write("end", ctx)


def nap_in_thread(ctx: Context, seconds: float) -> None:
    ledger().write("start", ctx)
    time.sleep(seconds)
    ledger().write("end", ctx)


async def nap_until_asked(ctx: Context) -> None:
    """Go on until asked to finish, and then leave it to another run, which is short."""
    ledger().write("start", ctx)
    while ctx.fence == 1 and not ctx.cancelled:  # noqa: ASYNC110 - a handler is not called, it has to look
        await asyncio.sleep(0.01)
    ledger().write("end", ctx)
    ctx.raise_if_cancelled()


def fork_and_nap(ctx: Context, seconds: float) -> None:
    """Leave a process behind that has everything open which this one has, as multiprocessing does."""
    ledger().write("start", ctx)
    if os.fork() == 0:
        try:
            time.sleep(seconds)
        finally:
            os._exit(0)
    time.sleep(seconds)
    ledger().write("end", ctx)


def hold_interpreter(ctx: Context, seconds: float) -> None:
    """Sleep in C without letting go of the GIL: nothing else of this process runs meanwhile."""
    ledger().write("start", ctx)
    ctypes.PyDLL(None).usleep(round(seconds * 1e6))
    ledger().write("end", ctx)


async def block_first_time(ctx: Context, seconds: float) -> None:
    """Block the event loop, but only in the first run."""
    ledger().write("start", ctx)
    if ctx.fence == 1:
        time.sleep(seconds)  # noqa: ASYNC251 - this is the mistake that the hang limit is for
    ledger().write("end", ctx)


async def exit_nine(ctx: Context) -> None:
    ledger().write("start", ctx)
    os._exit(9)


async def nap_after_a_death(ctx: Context, seconds: float) -> None:
    """Run in the first process to its end, and nap in the next one."""
    ledger().write("start", ctx)
    await asyncio.sleep(3600 if ctx.fence == 1 else seconds)
    ledger().write("end", ctx)


def _run_here(many: int) -> bool:
    return sum(entry.pid == os.getpid() for entry in ledger().entries()) >= many


async def exit_among(ctx: Context, others: int) -> None:
    """Take this process down: at first once so many run in it, later as soon as those beside it have begun."""
    ledger().write("start", ctx)
    while ctx.fence == 1 and not _run_here(others):  # noqa: ASYNC110 - it looks into a file
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.05)
    os._exit(9)


async def nap_in_helper_thread(ctx: Context, seconds: float) -> None:
    """Leave the work to a thread that nothing can stop."""
    await asyncio.to_thread(nap_in_thread, ctx, seconds)


async def tell_start(ctx: Context, port: int) -> None:
    """Tell who listens at a port of this machine when this started, by the clock that all processes share."""
    started_at = time.monotonic()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as teller:
        teller.sendto(f"{ctx.job_id} {started_at!r}".encode(), ("127.0.0.1", port))


LEAKED: list[bytes] = []


async def leak(ctx: Context, megabytes: int) -> None:
    """Keep memory for good."""
    ledger().write("start", ctx)
    LEAKED.append(os.urandom(1 << 20) * megabytes)
    await asyncio.sleep(0.2)
    ledger().write("end", ctx)


def leave_sleeper(ctx: Context, seconds: float) -> None:
    """Start a process in a session of its own, which nothing but a signal ends, and wait."""
    subprocess.Popen(["sleep", str(seconds)], start_new_session=True)
    ledger().write("start", ctx)
    time.sleep(seconds)


def say_progress_often(ctx: Context, times: int) -> None:
    for number in range(times):
        ctx.progress(number, times)


HANDLERS = (
    nap,
    nap_in_thread,
    nap_in_helper_thread,
    nap_until_asked,
    fork_and_nap,
    hold_interpreter,
    block_first_time,
    exit_nine,
    exit_among,
    nap_after_a_death,
    tell_start,
    say_progress_often,
    *DEATHS,
    leak,
    leave_sleeper,
)

if SKEW in os.environ:
    ahead = timedelta(seconds=float(os.environ[SKEW]))
    SystemClock.now = lambda _: datetime.now(UTC) + ahead

app = make_app()
