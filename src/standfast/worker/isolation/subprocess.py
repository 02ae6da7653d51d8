"""One cell, as its worker has it: a process with a fresh interpreter, the leader of a session and group of its own.

    starting ─► idle ⇄ busy ─► leaving ─► gone          gone at any time: it was killed, or died

Its stacks come by signal into a file without a name, open on both sides: they can be read whatever became of it.
The lifeline is a pipe that only ends: the kernel then ends the process and all that it has started.
"""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO

import msgspec

from standfast.worker.isolation.memory import CellGroup, descendants, resident, taken_together
from standfast.worker.isolation.messages import Frames, FromCell, ToCell, framed
from standfast.worker.messages import hear_out

STACKS_WITHIN = 1.0  # seconds that a cell is given to write down where it is
_LOOK_EVERY = 0.02
_KILOBYTE = 1024 if sys.platform != "darwin" else 1


class End(msgspec.Struct, frozen=True):
    """How a cell ended: by which signal, or with which status it exited, and the most memory that it took.

    The code is None, and the rest 0, where nobody knows: code in the worker has reaped it, or ignores SIGCHLD.
    """

    signal: int
    code: int | None
    peak: int

    def __str__(self) -> str:
        if self.code is None:
            return (
                "ended; how is not known, for its worker reaps processes that it did not start, or ignores SIGCHLD"
            )
        if not self.signal:
            return f"exited with status {self.code}"
        try:
            return f"was ended by {signal.Signals(self.signal).name}"
        except ValueError:
            return f"was ended by signal {self.signal}"


class Subprocess:
    """A process for handlers. Made and used inside a running event loop, by its thread alone."""

    def __init__(
        self, process: subprocess.Popen[bytes], dump: IO[bytes], lifeline: int, group: CellGroup | None
    ) -> None:
        self._process = process
        self._dump = dump
        self._lifeline = lifeline
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self.group = group
        self.pid = process.pid
        self.listener: Callable[[FromCell], None] | None = None  # who hears what it says
        self._end: End | None = None
        self._heard_out = False
        self.gone: asyncio.Future[End] = self._loop.create_future()  # how it ended, once all that it said was heard
        self.started_at = self.idle_since = self._loop.time()
        self.jobs = 0
        self.haunted = False
        """Whether something talks that an earlier job has left behind there: the next one gets another cell."""
        self.parent = False  # whether it had processes of its own when it last said so: to look for them takes long
        self._rest = 0
        self._companions: frozenset[int] = frozenset()

    @classmethod
    async def start(cls, group: CellGroup | None, folder: str) -> "Subprocess":
        """Start a process in this folder; it waits to be furnished."""
        python, folder = _command_in(folder)
        ours, theirs = socket.socketpair()
        dump = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the cell
        end, lifeline = os.pipe()
        passed = [theirs.fileno(), dump.fileno(), end]
        try:
            with theirs:
                process = subprocess.Popen(  # noqa: S603, ASYNC220 - ourselves; it takes a moment
                    [*python, *map(str, passed)],
                    pass_fds=passed,
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
        except BaseException:
            ours.close()
            dump.close()
            os.close(lifeline)
            raise
        finally:
            os.close(end)
        if group is not None and not group.admit(process.pid):
            group.remove()
            group = None
        cell = cls(process, dump, lifeline, group)
        try:
            cell._transport, _ = await cell._loop.connect_accepted_socket(lambda: _Line(cell), ours)
        except BaseException:  # the pool is closed meanwhile
            process.kill()
            process.wait()
            ours.close()
            cell.forget()
            raise
        threading.Thread(target=cell._await_end, name=f"standfast-cell-{cell.pid}", daemon=True).start()
        return cell

    @property
    def alive(self) -> bool:
        """Whether it is not known to have ended."""
        return self._end is None and not self._transport.is_closing()

    def is_ready(self) -> None:
        """Take note of what the app itself takes, and has started: none of that is of a job."""
        self._rest, self._companions = taken_together(self.pid), frozenset(descendants(self.pid))
        self.parent = bool(self._companions)

    @property
    def left_over(self) -> int:
        """How many bytes its jobs have left in it, while none runs."""
        taken = taken_together(self.pid) if self.parent else resident(self.pid)
        return max(0, taken - self._rest)

    @property
    def has_leftover_processes(self) -> bool:
        """Whether something lives that its jobs have started, while none runs."""
        return self.parent and not self._companions.issuperset(descendants(self.pid))

    def send(self, message: ToCell) -> None:
        """Say something; does nothing when it is gone."""
        if not self._transport.is_closing():
            self._transport.write(framed(message))

    def signal_group(self, number: signal.Signals) -> None:
        """Send a signal to it and to all that it has started."""
        if self._end is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    async def kill(self) -> End:
        """End it at once, with all that it has started; return how it ended, once it has."""
        self.signal_group(signal.SIGKILL)
        return await asyncio.shield(self.gone)

    async def stacks(self, within: float = STACKS_WITHIN) -> str:
        """Return where its threads are, as well as that can be known."""
        if self._end is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGUSR1)
        ends_at, seen = self._loop.time() + within, ""
        while self._loop.time() < ends_at and not self.gone.done():
            await asyncio.sleep(_LOOK_EVERY)
            if (seen and self.last_stacks == seen) or self.gone.done():
                break
            seen = self.last_stacks
        return self.last_stacks

    @property
    def last_stacks(self) -> str:
        """What is written down of where its threads are, or were when it died."""
        if self._dump.closed:
            return ""
        return os.pread(self._dump.fileno(), 256 * 1024, 0).decode(errors="replace")

    def forget(self) -> None:
        """Let go of what is left of a cell that is gone."""
        self._dump.close()
        os.close(self._lifeline)
        if self.group is not None:
            self.group.remove()

    def _await_end(self) -> None:
        """Wait, in a thread, until it has ended, and have the event loop bury it.

        Before that its number stays its own: a signal to the group cannot reach anybody else.
        """
        if hasattr(os, "waitid"):
            with contextlib.suppress(ChildProcessError):  # it has ended, and somebody else was told how
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._bury)
        else:
            end = _reap(self.pid)
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._buried, end)

    def _bury(self) -> None:
        self.signal_group(signal.SIGKILL)  # what it has started and left behind
        self._buried(_reap(self.pid))

    def _buried(self, end: End) -> None:
        self._process.returncode = -end.signal or end.code or 0
        self._end = end
        hear_out(self._transport)
        self._let_be_gone()

    def hung_up(self) -> None:
        """Take note that there is no more to hear."""
        self._heard_out = True
        self._let_be_gone()

    def _let_be_gone(self) -> None:
        if self._end is not None and self._heard_out:
            self.gone.set_result(self._end)


def _command_in(folder: str) -> tuple[list[str], str]:
    """Return what to start, and where: it imports from there, as the worker does, unless the folder is gone."""
    there = Path(folder).is_dir()
    safely = [] if there else ["-P"]
    return [sys.executable, *safely, "-m", "standfast.hosts.subprocess"], folder if there else "/"


def _reap(pid: int) -> End:
    """Wait for the end of a process, and tell how it ended."""
    try:
        _, status, usage = os.wait4(pid, 0)
    except ChildProcessError:
        return End(0, None, 0)
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0
    return End(number, code, usage.ru_maxrss * _KILOBYTE)


class _Line(asyncio.Protocol):
    """Hears a cell."""

    def __init__(self, cell: Subprocess) -> None:
        self._cell = cell
        self._frames = Frames()

    def data_received(self, data: bytes) -> None:
        """Pass on what it says."""
        for message in self._frames.from_cell(data):
            if self._cell.listener is None:
                self._cell.haunted = True
            else:
                self._cell.listener(message)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - an end is an end
        """Say that there is no more to hear."""
        self._cell.hung_up()
