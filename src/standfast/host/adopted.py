"""The host as its beater sees it: a child that was not started, cannot be killed, and is watched all the same.

    adopted ─► its life is over: the host says so ─────────────────► what it had is given back
        ├────► its process is gone: the kernel says so ────────────► likewise
        └────► it hangs, or cannot be stopped: it is dropped ─► its lease runs out, until one of the two is true

The end of a line tells nothing: a host may close files that are not its own.
"""

import asyncio
import os
import signal
import socket
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import astuple
from typing import Any, TypeVar

from standfast.host.line import BeaterEnd
from standfast.host.messages import Adopt, AskStacks
from standfast.supervisor.child import ChildProcess, ChildSpec, Exit
from standfast.supervisor.evidence.outside import seen_from_outside
from standfast.supervisor.folder import Folder
from standfast.supervisor.offspring import of_proc
from standfast.supervisor.options import WorkerOptions
from standfast.supervisor.process import ChildFiles, ProcessLauncher, configuration, tail_of
from standfast.worker.channel import SocketChannel
from standfast.worker.messages import Stop
from standfast.worker.notefile import FileLogReader

T = TypeVar("T")

LOOK_EVERY = 0.1
"""Seconds between two looks whether the host is there, on systems that have no pidfd."""

STACKS_WITHIN = 1.0
"""Seconds for the host to say where its threads are."""

GONE = Exit(255, foreign=True, unseen=True)

_FATAL = {
    "Segmentation fault": signal.SIGSEGV,
    "Aborted": signal.SIGABRT,
    "Bus error": signal.SIGBUS,
    "Floating point exception": signal.SIGFPE,
    "Illegal instruction": signal.SIGILL,
}
"""What Python writes before the stacks when one of these signals ends its process."""

_GET_INFO = 0xC040FF0B
_INFO = struct.Struct("=QQ11Ii")
_INFO_EXIT = 8
"""PIDFD_GET_INFO: since Linux 6.15 it tells the status of a process that its parent has taken note of already."""


class HostProcess:
    """The process that started this one, watched until it is gone. Made inside a running event loop."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._loop = asyncio.get_running_loop()
        self.gone = asyncio.Event()
        self.end: Exit | None = None
        """How it ended, as far as the kernel has told."""
        self.cgroup = of_proc(pid, "cgroup")
        self._pidfd: int | None = None
        with suppress(AttributeError, OSError):
            self._pidfd = os.pidfd_open(pid)
        if os.getppid() != pid:  # only after that: its number may be another's by now
            self._over()
        elif self._pidfd is None:
            self._look()
        else:
            self._loop.add_reader(self._pidfd, self._over)

    async def until(self, told: "asyncio.Future[T]") -> T:
        """Return what is told. Raises ProcessLookupError where the process is gone before."""
        gone = asyncio.ensure_future(self.gone.wait())
        waited: list[asyncio.Future[Any]] = [told, gone]
        try:
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
        if not told.done():
            raise ProcessLookupError("the host is gone")
        return told.result()

    def _look(self) -> None:
        if os.getppid() == self.pid:
            self._loop.call_later(LOOK_EVERY, self._look)
        else:
            self._over()

    def _over(self) -> None:
        self.gone.set()
        if self._pidfd is not None:
            self.end = end_of(self.pid, self._pidfd)
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None


class AdoptingLauncher:
    """Begins lives inside the host; a suspect has a process of its own, if it is known what to load there."""

    def __init__(self, options: WorkerOptions, folder: Folder, host: HostProcess, line: BeaterEnd) -> None:
        self._options = options
        self._folder = folder
        self._host = host
        self._line = line
        self._processes = ProcessLauncher(options, folder) if options.target else None
        self._awaited: dict[str, asyncio.Future[None]] = {}
        self._lives: dict[str, asyncio.Future[Exit]] = {}
        self._channels: dict[str, SocketChannel] = {}
        self._stacks: asyncio.Future[str] | None = None

    @property
    def isolates(self) -> bool:
        """Whether each group of suspects has a process of its own."""
        return self._processes is not None

    @property
    def hung_up(self) -> bool:
        """Whether the host has let go of the lines of all its lives: they do not hear that anybody beats."""
        return all(channel.ended for channel in self._channels.values())

    async def launch(self, spec: ChildSpec) -> ChildProcess:
        """Start a child and tell it what to be. It waits for a host that stands still, lest it begin many."""
        if spec.group and self._processes is not None:
            return await self._processes.launch(spec)
        loop = asyncio.get_running_loop()
        files = ChildFiles.of(self._folder.path, spec.worker)
        ours, theirs = socket.socketpair()
        taken = self._awaited[spec.worker] = loop.create_future()
        over = self._lives[spec.worker] = loop.create_future()
        try:
            self._line.say(Adopt(spec.worker), [theirs.detach(), os.dup(self._folder.lock)])
            await self._host.until(taken)
            channel = await SocketChannel.over(ours)
        except BaseException:
            ours.close()
            del self._lives[spec.worker]
            raise
        finally:
            del self._awaited[spec.worker]
        self._channels[spec.worker] = channel
        channel.send(configuration(spec, self._options, files))
        return AdoptedChild(self, self._host, channel, files, over)

    async def stacks(self) -> str:
        """Return where the threads of the host are, if it can still tell."""
        if self._stacks is None or self._stacks.done():
            self._stacks = asyncio.get_running_loop().create_future()
            self._line.say(AskStacks())
        with suppress(TimeoutError):
            async with asyncio.timeout(STACKS_WITHIN):
                return await asyncio.shield(self._stacks)
        return ""

    # -- what the host says ------------------------------------------------------------------------------------

    def taken(self, worker: str) -> None:
        """Hear that the host begins a life."""
        if (waiting := self._awaited.get(worker)) is not None and not waiting.done():
            waiting.set_result(None)

    def left(self, worker: str, error: str) -> None:
        """Hear that a life is over."""
        self._channels.pop(worker, None)
        if (over := self._lives.pop(worker, None)) is not None and not over.done():
            over.set_result(Exit(1 if error else 0))

    def stacks_told(self, text: str) -> None:
        """Hear where the threads of the host are."""
        if self._stacks is not None and not self._stacks.done():
            self._stacks.set_result(text)


class AdoptedChild:
    """One life of a worker inside the host."""

    killable = False

    def __init__(
        self,
        launcher: AdoptingLauncher,
        host: HostProcess,
        channel: SocketChannel,
        files: ChildFiles,
        over: "asyncio.Future[Exit]",
    ) -> None:
        self._launcher = launcher
        self._host = host
        self._files = files
        self._over = over
        self.channel = channel
        self.notes = FileLogReader(files.notes)

    @property
    def pid(self) -> int:
        """The number of the host's process."""
        return self._host.pid

    async def wait(self) -> Exit:
        """Return how its life ended, or that its process is gone, once one of them is so."""
        try:
            return await self._host.until(self._over)
        except ProcessLookupError:
            return self._host.end or told_by(tail_of(self._files.stacks)) or GONE
        finally:
            self.channel.hear_out()

    def kill(self) -> None:
        """Ask it to end at once: the process is not ours."""
        self.channel.send(Stop(0.0))

    async def stacks(self) -> str:
        """Return where the threads of the host are, as well as that can be known."""
        return await self._launcher.stacks()

    async def seen_from_outside(self) -> Mapping[str, str]:
        """Return what /proc tells of the host and, if that is installed, py-spy."""
        return await seen_from_outside(self.pid)

    def remains(self) -> Mapping[str, str]:
        """Return where its threads were when a signal ended it. The log of the host is its own."""
        written = {"stacks": tail_of(self._files.stacks), "cgroup": self._host.cgroup}
        return {name: text for name, text in written.items() if text}

    def forget(self) -> None:
        """Remove what it left behind on disk."""
        for file in astuple(self._files):
            file.unlink(missing_ok=True)


def told_by(stacks: str) -> Exit | None:
    """Return how a process ended by what Python wrote of it, if it did."""
    words = stacks.partition("Fatal Python error: ")[2].partition("\n")[0]
    number = _FATAL.get(words)
    return None if number is None else Exit(-number, foreign=True)


def end_of(pid: int, pidfd: int) -> Exit | None:
    """Return how a process ended that is not our child: by /proc until its parent takes note, then by its pidfd."""
    state, *rest = of_proc(pid, "stat").rpartition(")")[2].split() or [""]
    if state == "Z":
        return Exit(os.waitstatus_to_exitcode(int(rest[-1])), foreign=True)
    info = bytearray(_INFO.pack(_INFO_EXIT, *[0] * 13))
    with suppress(ImportError, OSError):
        import fcntl  # noqa: PLC0415 - not on Windows

        fcntl.ioctl(pidfd, _GET_INFO, info)
        asked, *_, status = _INFO.unpack(info)
        if asked & _INFO_EXIT:
            return Exit(os.waitstatus_to_exitcode(status), foreign=True)
    return None
