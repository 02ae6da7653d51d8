"""A cell itself: `python -m standfast.hosts.subprocess LINE DUMP LIFELINE`, started by a worker for its isolated tasks.

It loads the app as the worker did, says that it is ready, and runs one attempt at a time until it is told to leave.
The line is read in a thread, and written to from any: what a handler said before it took the process down was said.
"""

import asyncio
import contextlib
import ctypes
import errno
import faulthandler
import fcntl
import logging
import os
import select
import signal
import socket
import sys
import threading
import traceback

from standfast.errors import StandfastError
from standfast.hosts.lifespan import enter_lifespans, export_last_spans, leave, leave_lifespans, live
from standfast.hosts.loader import load_app
from standfast.observe.logs.attach import attach_logs
from standfast.observe.logs.job_log import keep_log_tails
from standfast.stores.url import open_backend
from standfast.worker.isolation.executor import SubprocessExecutor
from standfast.worker.isolation.messages import (
    Frames,
    FromCell,
    Furnish,
    Leave,
    Noted,
    Ready,
    Recalled,
    Run,
    Tell,
    ToCell,
    framed,
)
from standfast.worker.messages import Failed

LAST_LINES = 1.0  # seconds for what was said last to reach the terminal
LOOK_EVERY = 1.0
"""Seconds between two looks at the line, which a handler may have closed with all that it found open."""

_PR_SET_PDEATHSIG = 1
_AT_ONCE = 64 * 1024


def main() -> None:
    """Run the cell; never returns."""
    line, dump = Line(socket.socket(fileno=int(sys.argv[1]))), open(int(sys.argv[2]), "wb", buffering=0)  # noqa: SIM115, PTH123 - open as long as the process
    _die_with_worker(int(sys.argv[3]))
    faulthandler.enable(file=dump)
    faulthandler.register(signal.SIGUSR1, file=dump)
    # The worker decides when this ends; what the handler has started heeds signals by itself. Not SIG_IGN, which it
    # would inherit.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    live(_cell(line))


async def _cell(line: "Line") -> None:
    told: asyncio.Queue[ToCell] = asyncio.Queue()
    line.listen(told)
    furnish = await told.get()
    if not isinstance(furnish, Furnish):
        return
    try:
        app = load_app(furnish.target, furnish.app_dir)
        backend = open_backend(furnish.settings)
        logs = attach_logs(app.events, furnish.logs, furnish.worker)
        lifespans = await enter_lifespans(app)
    except StandfastError as error:
        line.say(Failed(str(error), "".join(traceback.format_exception(error))))
        await told.get()  # the worker ends this process when it has heard
        return
    keep_log_tails(logging.getLogger())
    inside = SubprocessExecutor(
        tasks=app.tasks,
        middleware=app.middlewares,
        tracing=app.tracing,
        backend=backend,
        worker=furnish.worker,
        settings=furnish.settings,
        say=line.say,
    )
    line.say(Ready())
    while not isinstance(message := await told.get(), Leave):
        match message:
            case Run():
                inside.begin(message)
            case Tell():
                inside.heed(message)
            case Noted() | Recalled():
                inside.recall(message)
    await leave_lifespans(lifespans)
    await export_last_spans(app.tracing)
    logs.close(LAST_LINES)
    leave(0)


class Line:
    """The line to the worker, read in a thread of its own and written to from any."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._pid = os.getpid()
        self._file = _file_at(end.fileno())
        self._writing = threading.RLock()  # a destructor may log at any moment, in this very thread

    def say(self, message: FromCell) -> None:
        """Say something; when this returns, the worker has it whatever becomes of this process.

        A process that a handler has forked says nothing here: the worker would take it for the cell.
        """
        if os.getpid() != self._pid:
            return
        frame = framed(message)
        try:
            with self._writing:
                self._see_that_it_is_open()
                self._end.sendall(frame)
        except OSError:  # nobody hears: what runs here must not go on
            _kill_group()

    def listen(self, told: asyncio.Queue[ToCell]) -> None:
        """Put what the worker says there; once it is gone, so is this process, with all that it has started."""
        threading.Thread(target=self._hear, args=(asyncio.get_running_loop(), told), daemon=True).start()

    def _hear(self, loop: asyncio.AbstractEventLoop, told: asyncio.Queue[ToCell]) -> None:
        frames, line = Frames(), select.poll()
        line.register(self._end, select.POLLIN)
        with contextlib.suppress(OSError):
            while True:
                heard = line.poll(LOOK_EVERY * 1_000)
                self._see_that_it_is_open()
                if not heard:
                    continue
                if not (data := self._end.recv(_AT_ONCE)):
                    break
                for message in frames.to_cell(data):
                    loop.call_soon_threadsafe(told.put_nowait, message)
        _kill_group()

    def _see_that_it_is_open(self) -> None:
        """Raise OSError where a handler has closed the line, even if something else has its number since."""
        if _file_at(self._end.fileno()) != self._file:
            raise OSError(errno.EBADF, "the line was closed")


def _file_at(number: int) -> tuple[int, int]:
    there = os.fstat(number)
    return there.st_dev, there.st_ino


def _die_with_worker(lifeline: int) -> None:
    """Have the kernel, where it can, end this process with its worker, even if a handler holds the interpreter.

    The lifeline is a pipe to which nobody writes. That it ends is told by a signal, which here is SIGKILL and goes
    to the group: what the handler has started ends too. Somebody else may have it open, a process that a handler of
    the worker has forked: so the parent's death is told too. Not by SIGKILL, which would end this process alone,
    and with it the lifeline, before that is told to the others.
    """
    signal.signal(signal.SIGHUP, lambda *_: _kill_group())
    if sys.platform == "linux":
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGHUP, 0, 0, 0)


def _kill_group() -> None:
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
