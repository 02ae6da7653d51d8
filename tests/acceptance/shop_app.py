"""The app that the acceptance tests run: `Shop` copies it beside a database and starts real workers on it.

Each effect is one line in a ledger, a file of its own: what was done is judged from there, never from the store.
"""

import asyncio
import concurrent.futures
import contextlib
import json
import logging
import os
import sys
import time
from pathlib import Path

from standfast import Cancel, Constant, Context, Discard, Exponential, Fail, Retry, Snooze, Standfast, Success

FOLDER = Path(__file__).resolve().parent
app = Standfast(f"sqlite:///{FOLDER}/jobs.db", lease=10, beat=0.25, grace=5, store_timeout=5)


def note(ctx: Context, what: str) -> None:
    """Write one effect into the ledger: one write, so lines of many processes do not mix."""
    line = {
        "job": ctx.job_id,
        "fence": ctx.fence,
        "attempt": ctx.attempt,
        "what": what,
        "at": time.time(),
        "pid": os.getpid(),
    }
    file = os.open(FOLDER / "ledger", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(file, json.dumps(line).encode() + b"\n")
    finally:
        os.close(file)


# -- ordinary work ---------------------------------------------------------------------------------------------


@app.task
async def pack(ctx: Context, order: int) -> int:
    """Done at once."""
    note(ctx, "packed")
    return order


@app.task
def weigh(ctx: Context, order: int) -> int:
    """Done at once, in a thread."""
    note(ctx, "weighed")
    return order


@app.task
async def stow(ctx: Context, seconds: float) -> None:
    """Done after a while."""
    note(ctx, "stowed")
    await asyncio.sleep(seconds)


@app.task(max_attempts=2, backoff=0)
def mutter(ctx: Context, words: str) -> None:
    """Log, in a thread, and fail the first time."""
    log = logging.getLogger("shop.mutter")
    log.warning("%s, attempt %d", words, ctx.attempt)
    ctx.log.error("by the context")
    if ctx.attempt == 1:
        raise ConnectionError("the till is locked")


@app.task
async def read_aloud(text: str) -> int:
    """Take up room."""
    return len(text)


@app.task
async def guard(ctx: Context, until: str) -> str:
    """Runs until a file of that name is there, or until it is cancelled."""
    note(ctx, "began")
    try:
        while not (FOLDER / until).exists():  # noqa: ASYNC110 - it is made by another process
            await asyncio.sleep(0.02)
    except asyncio.CancelledError:
        note(ctx, "cancelled")
        raise
    note(ctx, "ended")
    return until


@app.task
def guard_by_hand(ctx: Context, until: str) -> str:
    """Runs likewise in a thread, and looks whether it is cancelled."""
    note(ctx, "began")
    while not (FOLDER / until).exists():
        if ctx.cancelled:
            note(ctx, "told")
            ctx.raise_if_cancelled()
        time.sleep(0.02)
    note(ctx, "ended")
    return until


@app.task
def guard_deaf(ctx: Context, until: str) -> str:
    """Runs likewise, and listens to nobody."""
    note(ctx, "began")
    while not (FOLDER / until).exists():
        time.sleep(0.02)
    note(ctx, "ended")
    return until


@app.task
def guard_then_fail(ctx: Context, until: str) -> str:
    """Runs until a file of that name is there, listens to nobody, and fails."""
    note(ctx, "began")
    while not (FOLDER / until).exists():
        time.sleep(0.02)
    raise ConnectionError("the till is locked")


@app.task
async def count_to(ctx: Context, total: int) -> int:
    """Says how far it is, and waits half-way for a file named `go`."""
    for done in range(total + 1):
        ctx.progress(done, total)
        while done == total // 2 and not (FOLDER / "go").exists():  # noqa: ASYNC110 - made by another process
            await asyncio.sleep(0.02)
    return total


# -- outcomes --------------------------------------------------------------------------------------------------


def decide(ctx: Context, how: str) -> object:
    """Return the outcome meant, at the first attempt; then success."""
    note(ctx, how)
    if ctx.fence > 1:
        return Success({"fence": ctx.fence})
    return {
        "success": Success({"fence": ctx.fence}),
        "retry": Retry("the till is locked", delay=0.05),
        "snooze": Snooze(0.05),
        "discard": Discard("sold out"),
        "cancel": Cancel("the customer left"),
        "fail": Fail("no such order"),
    }[how]


@app.task
async def say(ctx: Context, how: str) -> object:
    """Return an outcome."""
    return decide(ctx, how)


@app.task
def say_by_hand(ctx: Context, how: str) -> object:
    """Return an outcome from a thread."""
    return decide(ctx, how)


@app.task
async def throw(ctx: Context, how: str) -> object:
    """Raise an outcome."""
    raise decide(ctx, how)


@app.task
def throw_by_hand(ctx: Context, how: str) -> object:
    """Raise an outcome in a thread."""
    raise decide(ctx, how)


@app.task(retry_on=ConnectionError, discard_on=(LookupError,), backoff=0, max_attempts=3)
def sort_out(ctx: Context, error: str) -> None:
    """Raise one error of each kind."""
    note(ctx, error)
    raise {"retried": ConnectionResetError, "discarded": KeyError, "other": ArithmeticError}[error]("the printer")


@app.task(timeout=0.3, max_attempts=2, backoff=0)
async def dawdle(ctx: Context) -> None:
    """Outlive a timeout."""
    note(ctx, "began")
    await asyncio.sleep(3600)


@app.task(timeout=0.3, max_attempts=2, backoff=0)
def dawdle_by_hand(ctx: Context) -> None:
    """Outlive a timeout in a thread, and look."""
    note(ctx, "began")
    while not ctx.cancelled:
        time.sleep(0.02)
    ctx.raise_if_cancelled()


@app.task(timeout=0.3, max_attempts=2, backoff=0)
def dawdle_deaf(ctx: Context) -> None:
    """Outlive a timeout in a thread, and listen to nobody."""
    note(ctx, "began")
    time.sleep(3600)


@app.task(timeout=0.3, max_attempts=2, backoff=0)
async def dawdle_stubborn(ctx: Context) -> None:
    """Outlive a timeout and swallow every cancellation."""
    note(ctx, "began")
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)


@app.task(max_attempts=2, backoff=Constant(30))
async def break_constant() -> None:
    """Fail; wait 30 to 60 seconds."""
    raise ConnectionError("the till is locked")


@app.task(max_attempts=9, backoff=Exponential(base=30, factor=4, max_delay=100))
async def break_capped() -> None:
    """Fail; wait 70 to 100 seconds: the cap is reached at once."""
    raise ConnectionError("the till is locked")


# -- troublemakers ---------------------------------------------------------------------------------------------


class Tantrum(BaseException):
    """As some libraries raise to get past `except Exception`."""


class Mute(Exception):  # noqa: N818 - the test is about its words
    """An error that cannot even say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def dig(depth: int) -> int:
    """Exhaust the stack."""
    return dig(depth + 1) + 1


def trouble(kind: str) -> object:  # noqa: C901, PLR0911, PLR0912 - a list of troubles
    """Make trouble of this kind."""
    match kind:
        case "exception":
            raise ValueError("plainly wrong")
        case "system exit":
            sys.exit(3)
        case "keyboard interrupt":
            raise KeyboardInterrupt
        case "cancelled error":
            raise asyncio.CancelledError
        case "foreign cancelled error":
            raise concurrent.futures.CancelledError
        case "generator exit":
            raise GeneratorExit
        case "stop iteration":
            raise StopIteration
        case "tantrum":
            raise Tantrum("for no reason")
        case "mute":
            raise Mute
        case "surrogate":
            raise ValueError("bad name caf\udce9")
        case "recursion":
            return dig(0)
        case "unserialisable":
            return object()
        case "huge result":
            return "x" * 5_000_000
        case "huge error":
            raise ValueError("x" * 5_000_000)
        case "bad outcome":
            return Snooze("soon")  # type: ignore[arg-type]
        case "endless outcome":
            return Snooze(float("inf"))
        case "far outcome":
            return Snooze(1e12)
        case "odd outcome":
            return Cancel(object())  # type: ignore[arg-type]
        case "logs":
            flood()
            return None
    raise AssertionError(kind)


def flood() -> None:
    """Write 20,000 lines of log."""
    log = logging.getLogger("shop")
    for number in range(20_000):
        log.warning("line %d of a flood that nobody reads", number)


@app.task(max_attempts=1)
async def trouble_async(ctx: Context, kind: str) -> object:
    """Make trouble on the event loop."""
    note(ctx, kind)
    return trouble(kind)


@app.task(max_attempts=1)
def trouble_by_hand(ctx: Context, kind: str) -> object:
    """Make trouble in a thread."""
    note(ctx, kind)
    return trouble(kind)


@app.task
async def hang(ctx: Context) -> None:
    """Wait for what never comes."""
    note(ctx, "hangs")
    await asyncio.get_running_loop().create_future()


@app.task
def hang_by_hand(ctx: Context) -> None:
    """Sleep for ever in a thread."""
    note(ctx, "hangs")
    time.sleep(3600)
