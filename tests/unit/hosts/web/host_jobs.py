"""The app of the tests of hosts: what its handlers do is written to files, which outlive every process."""

import ctypes
import os
import threading
import time
from pathlib import Path

from standfast import Context, Standfast

HERE = Path(os.environ["HOST_TEST_FOLDER"])

app = Standfast(
    f"sqlite:///{HERE}/jobs.db",
    lease=float(os.environ.get("HOST_TEST_LEASE", "15")),
    hang_limit=float(os.environ.get("HOST_TEST_HANG_LIMIT", "120")),
)


def note(name: str) -> None:
    """Note that something has happened."""
    with (HERE / name).open("a") as file:
        file.write(f"{os.getpid()}\n")


@app.task
def whoami() -> list[str]:
    """Say where this runs."""
    return [str(os.getpid()), threading.current_thread().name]


@app.task
async def whose_loop() -> str:
    """Say in which thread the event loop is."""
    return threading.current_thread().name


@app.task
def heedful(ctx: Context) -> None:
    """Run until told to stop, and heed it."""
    note("heedful-began")
    while True:
        if ctx.cancelled:
            note("heedful-told")
        ctx.raise_if_cancelled()
        time.sleep(0.01)


@app.task(max_attempts=3)
def heedless(ctx: Context, until: str) -> str:
    """Run until a file is there, whatever is said."""
    note("heedless-began")
    while not (HERE / until).exists():
        time.sleep(0.01)
    note("heedless-lost" if ctx.lost else "heedless-kept")
    return str(ctx.fence)


@app.task
async def blocking(until: str) -> None:
    """Block the event loop until a file is there."""
    note("blocking-began")
    while not (HERE / until).exists():
        time.sleep(0.01)  # noqa: ASYNC251 - that is the point


@app.task
def leaves_thread() -> None:
    """Leave a thread behind that raises."""

    def fail() -> None:
        raise LookupError("nobody hears this")

    threading.Thread(target=fail, name="left-behind").start()


@app.task
def segfaults() -> None:
    """Kill the process from C code."""
    ctypes.string_at(0)
