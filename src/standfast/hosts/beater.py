"""The beater: `python -m standfast.hosts.beater FD`, a supervisor whose child is the process that started it.

    adopted ─► its life is over: the host says so ─────────────────► what it had is given back
        ├────► its process is gone: the kernel says so ────────────► likewise
        └────► it hangs, or cannot be stopped: it is dropped ─► its lease runs out, until one of the two is true

The end of a line tells nothing: a host may close files that are not its own.
"""

import asyncio
import logging
import os
import signal
import socket
import struct
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass
from random import Random
from typing import Any, TypeVar

from standfast.errors import ConfigurationError, StandfastError, StoreError
from standfast.events import Events, WorkerReady, WorkerStopped, WorkerStopping
from standfast.hosts.ipc import (
    Adopt,
    Alive,
    AskStacks,
    BeaterEnd,
    Begin,
    GaveUp,
    Left,
    Relay,
    Said,
    Stacks,
    StopAll,
    Taken,
    in_short,
)
from standfast.hosts.metrics import Metered
from standfast.model.clock import SystemClock
from standfast.observe.incidents import Retention
from standfast.observe.logs.attach import log_events_as_records
from standfast.observe.logs.levels import Level
from standfast.supervisor.child import KILL_AFTER_GRACE, ChildProcess, ChildSpec, Exit
from standfast.supervisor.incidents.detector import IncidentDetector
from standfast.supervisor.incidents.folders import FolderWriter
from standfast.supervisor.incidents.recorder import IncidentRecorder
from standfast.supervisor.incidents.snapshot import seen_from_outside
from standfast.supervisor.main import LAST_LINES, early_settings
from standfast.supervisor.plan import Plan, Ports
from standfast.supervisor.probes import surveyor_of
from standfast.supervisor.process import (
    ChildFiles,
    Folder,
    ProcessLauncher,
    configuration,
    memory_at_hand,
    of_proc,
    private_folder,
    tail_of,
)
from standfast.supervisor.supervisor import Supervisor
from standfast.worker.claim_log import ClaimLogFileReader
from standfast.worker.messages import SocketChannel, Stop
from standfast.worker.options import WorkerOptions
from standfast.worker.storecalls import StoreCloser

T = TypeVar("T")
LOOK_EVERY = 0.1  # seconds between two looks whether the host is there, on systems that have no pidfd
STACKS_WITHIN = 1.0  # seconds for the host to say where its threads are
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
        self.end: Exit | None = None  # how it ended, as far as the kernel has told
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


@dataclass(eq=False)
class AdoptedChild:
    """One life of a worker inside the host."""

    killable = False

    launcher: AdoptingLauncher
    host: HostProcess
    channel: SocketChannel
    files: ChildFiles
    over: "asyncio.Future[Exit]"

    def __post_init__(self) -> None:
        self.claim_log = ClaimLogFileReader(self.files.notes)

    @property
    def pid(self) -> int:
        """The number of the host's process."""
        return self.host.pid

    async def wait(self) -> Exit:
        """Return how its life ended, or that its process is gone, once one of them is so."""
        try:
            return await self.host.until(self.over)
        except ProcessLookupError:
            return self.host.end or told_by(tail_of(self.files.stacks)) or GONE
        finally:
            self.channel.hear_out()

    def kill(self) -> None:
        """Ask it to end at once: the process is not ours."""
        self.channel.send(Stop(0.0))

    async def stacks(self) -> str:
        """Return where the threads of the host are, as well as that can be known."""
        return await self.launcher.stacks()

    async def seen_from_outside(self) -> Mapping[str, str]:
        """Return what /proc tells of the host and, if that is installed, py-spy."""
        return await seen_from_outside(self.pid)

    def remains(self) -> Mapping[str, str]:
        """Return where its threads were when a signal ended it. The log of the host is its own."""
        written = {"stacks": tail_of(self.files.stacks), "cgroup": self.host.cgroup}
        return {name: text for name, text in written.items() if text}

    def forget(self) -> None:
        """Remove what it left behind on disk."""
        for file in astuple(self.files):
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


# `python -m standfast.hosts.beater FD` is an ordinary supervisor whose child is the process that started it. It
# loads no code of the user's. Only the host stops it: signals to the group are for the host.

ALIVE_EVERY = 1.0
TOLD_BY_HOST = (WorkerReady, WorkerStopping, WorkerStopped)  # of these the host has more to tell
SEEN_WITHIN = 1.0
"""Seconds after which a host that has hung up is asked for no more: its end would have been seen by now."""


def main() -> None:
    """Beat until the host has stopped or is gone, and all it had is given back."""
    end = socket.socket(fileno=int(sys.argv[1]))
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    closer = StoreCloser()
    with private_folder() as folder:
        asyncio.run(_live(end, folder, closer))
    closer.leave()


async def _live(end: socket.socket, folder: Folder, closer: StoreCloser) -> None:
    line = BeaterEnd(end)
    begin = await line.hear()
    if not isinstance(begin, Begin):
        return
    beater = Beater(begin, line, folder, closer)
    await beater.run()
    line.close()


class Beater:
    """A supervisor of one host."""

    def __init__(self, begin: Begin, line: BeaterEnd, folder: Folder, closer: StoreCloser) -> None:
        self._line = line
        self._host = HostProcess(begin.host)
        self._stopping = False
        self._supervising: asyncio.Task[None] | None = None
        clock, events, early = SystemClock(), Events(), early_settings()
        self._grace = early.grace if begin.grace is None else begin.grace
        logging.basicConfig(handlers=[Relay(self._relay)], level=Level[begin.logs.level.upper()])
        self._narrator = log_events_as_records(events, clock, TOLD_BY_HOST)
        self._recorder = IncidentRecorder(clock, early, filing=FolderWriter(Retention.of(early), clock))
        self._launcher = AdoptingLauncher(_options(begin), folder, self._host, line)
        metered = Metered.beginning(begin.metrics_dir, events)
        ports = Ports(
            self._launcher,
            metered.open_backend,
            clock,
            Random(),  # noqa: S311 - jitter
            events,
            IncidentDetector(clock, self._recorder),
            close_backend=closer.close,
            memory=memory_at_hand,
            tally=metered.tally,
            surveyor=surveyor_of,
        )
        self._supervisor = Supervisor(Plan(1, begin.queues, hang_limit=early.hang_limit), ports)

    async def run(self) -> None:
        """Supervise the host to its end; say what makes that impossible, if something does."""
        beside = [asyncio.create_task(each()) for each in (self._hear, self._watch, self._say_alive)]
        self._supervising = asyncio.create_task(self._supervisor.run())
        try:
            await asyncio.wait([self._supervising])
            if not self._supervising.cancelled():
                self._supervising.result()
        except StandfastError as error:
            wrong = isinstance(error, ConfigurationError | StoreError)
            self._line.say(GaveUp(in_short(error), wrong))
        finally:
            for task in beside:
                task.cancel()
            self._narrator.finish()
            self._recorder.close(LAST_LINES)

    def _stop(self) -> None:
        if not self._stopping:  # asked twice a supervisor hurries
            self._stopping = True
            self._supervisor.stop()

    async def _watch(self) -> None:
        await self._host.gone.wait()
        self._stopping = True
        self._supervisor.outlive_host()

    async def _say_alive(self) -> None:
        while True:
            self._line.say(Alive())
            self._narrator.tick()
            await asyncio.sleep(ALIVE_EVERY)

    async def _hear(self) -> None:
        while (word := await self._line.hear()) is not None:
            match word:
                case Taken(worker=worker):
                    self._launcher.taken(worker)
                case Left(worker=worker, error=error):
                    self._launcher.left(worker, error)
                case Stacks(text=text):
                    self._launcher.stacks_told(text)
                case StopAll():
                    self._stop()
                case Begin():
                    pass  # it is said once
        await self._outlive_line()

    async def _outlive_line(self) -> None:
        """Leave a host that lives and has hung up: nothing is given back, its code may run; its lease runs out."""
        with suppress(TimeoutError):
            async with asyncio.timeout(SEEN_WITHIN):
                await self._host.gone.wait()
        if not self._host.gone.is_set():
            self._stop()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._grace + KILL_AFTER_GRACE + SEEN_WITHIN):
                    await self._until_gone()
            if not self._host.gone.is_set() and self._supervising is not None:
                self._supervising.cancel()

    async def _until_gone(self) -> None:
        """Wait for the end of the host; one that has let go of all lines may run another program by now."""
        while not self._host.gone.is_set():
            if self._launcher.hung_up:
                self._supervisor.drop_adopted()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY):
                    await self._host.gone.wait()

    def _relay(self, said: Said) -> bool:
        if self._line.gone or self._host.gone.is_set():
            return False
        self._line.say(said)
        return True


def _options(begin: Begin) -> WorkerOptions:
    return WorkerOptions(
        target=begin.target,
        drain=False,
        processes=1,
        concurrency=begin.concurrency,
        queues=begin.queues,
        grace=begin.grace,
        lease=begin.lease,
        app_dir=begin.app_dir,
        url=begin.url,
        logs=begin.logs,
        metrics_dir=begin.metrics_dir,
    )


if __name__ == "__main__":
    main()
