"""Handlers that take their process down in their first run, each in its own way, and complete in the next."""

import ctypes
import logging
import os
import resource
import signal
import time
from pathlib import Path

from ledger import VARIABLE, Ledger

from standfast import Context

log = logging.getLogger("deadly")

HOG = 200 * 1024 * 1024
"""Bytes that the hog takes; the system lets it have no more than twice that besides what it has."""


def _first_run(ctx: Context) -> bool:
    """Say that a run has started, and tell whether it is the first."""
    Ledger(Path(os.environ[VARIABLE])).write("start", ctx)
    log.warning("the last words of %s", ctx.job_id)
    ctx.progress(1, 4)
    return ctx.fence == 1


def _marked() -> None:
    """Wait until the store was told that this runs, and how far it is: both are told after a moment."""
    time.sleep(0.6)


def exit_without_a_word(ctx: Context) -> None:
    if _first_run(ctx):
        _marked()
        os._exit(9)


def touch_nothing(ctx: Context) -> None:
    """End by SIGSEGV."""
    if _first_run(ctx):
        ctypes.string_at(0)


def kill_itself(ctx: Context) -> None:
    if _first_run(ctx):
        os.kill(os.getpid(), signal.SIGKILL)


def hog_memory(ctx: Context) -> None:
    """Take much, within limits, and be killed for it as the kernel does."""
    if _first_run(ctx):
        sizes = Path("/proc/self/statm").read_text(encoding="ascii").split()
        limit = int(sizes[0]) * resource.getpagesize() + 2 * HOG
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        hoard = bytearray(HOG)
        hoard[:: resource.getpagesize()] = b"x" * len(range(0, HOG, resource.getpagesize()))
        os.kill(os.getpid(), signal.SIGKILL)


def never_let_go(ctx: Context) -> None:
    """Hold the interpreter in C, for good."""
    if _first_run(ctx):
        ctypes.PyDLL(None).usleep(600_000_000)


async def block_the_loop(ctx: Context) -> None:
    if _first_run(ctx):
        time.sleep(600)  # noqa: ASYNC251 - this is the mistake that the hang limit is for


DEATHS = (exit_without_a_word, touch_nothing, kill_itself, hog_memory, never_let_go, block_the_loop)
