"""Real children: fresh interpreters, spoken to over a socket pair, with their files in a private folder.

The folder is locked for as long as the supervisor or a child of it lives, and the kernel releases the lock however they
end. `kill -9` leaves the folder behind, and the next supervisor removes it.
"""

import asyncio
import contextlib
import fcntl
import os
import resource  # noqa: F401 - os.wait4 imports it, which fails where no file descriptor is free
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass, field
from pathlib import Path

from standfast.observe.logs.job_log import read_ring
from standfast.observe.metrics.totals import Totals
from standfast.settings import URL_VARIABLE
from standfast.supervisor.child import ChildSpec, Exit
from standfast.supervisor.incidents.snapshot import seen_from_outside
from standfast.worker.claim_log import ClaimLogFileReader
from standfast.worker.isolation.memory import resident
from standfast.worker.messages import Configure, SocketChannel
from standfast.worker.options import WorkerOptions

PREFIX = "standfast-worker-"


@dataclass(frozen=True, slots=True)
class Folder:
    """Where it is, and the file descriptor that locks it."""

    path: Path
    lock: int


@contextmanager
def private_folder() -> Iterator[Folder]:
    """Give a new folder that is gone afterwards; those of supervisors that were killed are removed first."""
    sweep_abandoned()
    folder = _locked()
    try:
        yield folder
    finally:
        shutil.rmtree(folder.path, ignore_errors=True)
        os.close(folder.lock)


def sweep_abandoned() -> None:
    """Remove the folders of this user that no living supervisor has locked."""
    with suppress(OSError):
        for folder in list(Path(tempfile.gettempdir()).glob(f"{PREFIX}*")):
            _remove_if_abandoned(folder)


def _locked() -> Folder:
    """Make a folder and lock it; again where somebody swept it in between."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        lock = _try_lock(folder)
        if lock is not None:
            if folder.exists():
                return Folder(folder, lock)
            os.close(lock)


def _try_lock(folder: Path) -> int | None:
    """Lock a folder of ours; None where it is gone, another's, or locked."""
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        if os.fstat(opened).st_uid == os.getuid():
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return opened
    except OSError:
        pass
    os.close(opened)
    return None


def _remove_if_abandoned(folder: Path) -> None:
    lock = _try_lock(folder)
    if lock is not None:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


_PS_WITHIN = 5.0


def memory_of(pids: Sequence[int]) -> Mapping[int, int]:
    """Return the resident bytes of processes; of those that are gone, nothing."""
    return memory_at_hand(pids) if sys.platform == "linux" else _by_ps(pids)


def memory_at_hand(pids: Sequence[int]) -> Mapping[int, int]:
    """Return the same where that costs next to nothing: on Linux; elsewhere nothing."""
    return {pid: taken for pid in pids if (taken := resident(pid))}


def _by_ps(pids: Sequence[int]) -> Mapping[int, int]:
    asked = ["ps", "-o", "pid=,rss=", "-p", ",".join(map(str, pids))]
    try:
        said = subprocess.run(asked, capture_output=True, text=True, timeout=_PS_WITHIN, check=False)  # noqa: S603 - numbers alone
        return {int(pid): int(kilobytes) * 1024 for pid, kilobytes in map(str.split, said.stdout.splitlines())}
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}


# The kernel tells once what a process has used, to whoever takes its status, and /proc keeps its limits and cgroup
# until then. So a thread sees the end first, reads those, and takes the status. After that its number may be
# another process's: signals go by pidfd where there is one, and under the lock that guards the taking.

LOOK_EVERY = 0.05
"""Seconds between two looks for its end on systems where that cannot be seen without taking it (macOS)."""

LOST_STATUS = 255  # what is told of a process whose status somebody else took, or is lost
_CAN_SEE = hasattr(os, "waitid") and hasattr(os, "WNOWAIT")
_LEFT = ("limits", "cgroup")  # what /proc tells of a process that has ended


@dataclass(frozen=True, slots=True)
class Ended:
    """How it ended, and what /proc told of it then."""

    exit: Exit
    left: Mapping[str, str] = field(default_factory=dict)


class WaitedProcess:
    """One child process. Made, and used, in one event loop."""

    def __init__(self, command: Sequence[str], *, pass_fds: Sequence[int], env: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(command, pass_fds=pass_fds, env=env)  # noqa: S603 - our own interpreter
        self.pid = self._process.pid
        self._pidfd = _open_pidfd(self.pid)
        self._taken = False
        self._taking = threading.Lock()
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[Ended] = self._loop.create_future()
        threading.Thread(target=self._watch, name=f"standfast-child-{self.pid}", daemon=True).start()

    async def ended(self) -> Ended:
        """Return how it ended, once it has."""
        return await asyncio.shield(self._ended)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens where it has ended."""
        with contextlib.suppress(ProcessLookupError), self._taking:
            if self._taken:
                return
            if self._pidfd is None:
                os.kill(self.pid, number)
            else:
                signal.pidfd_send_signal(self._pidfd, number)

    def _watch(self) -> None:
        """Wait for its end, in the thread."""
        if _CAN_SEE:
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        left = {name: text for name in _LEFT if (text := of_proc(self.pid, name))} if _CAN_SEE else {}
        while (end := self._take()) is None:
            time.sleep(LOOK_EVERY)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._deliver, Ended(end, left))

    def _take(self) -> Exit | None:
        """Take its status if it has ended."""
        with self._taking:
            try:
                pid, status, used = os.wait4(self.pid, os.WNOHANG)
            except (ChildProcessError, ImportError):  # with an ImportError the kernel has given the status away
                end = Exit(LOST_STATUS)
            else:
                if not pid:
                    return None
                # At exec the kernel takes over what the parent used as the least that its child has used.
                peak = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
                end = Exit(os.waitstatus_to_exitcode(status), peak, used.ru_utime + used.ru_stime)
            self._taken = True
            self._process.returncode = end.code  # so that this object does not look for itself, some day
            if self._pidfd is not None:
                os.close(self._pidfd)
            return end

    def _deliver(self, ended: Ended) -> None:
        if not self._ended.done():
            self._ended.set_result(ended)


def _open_pidfd(pid: int) -> int | None:
    """Return a handle on the process, which nobody can have taken yet; None where the system has none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def of_proc(pid: int, name: str) -> str:
    """Return what /proc tells of a process under this name, if it does."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:
        return ""


STACKS_WITHIN = 1.0  # seconds that a hung child is given to write down where it is
STACKS_SETTLE = 0.03  # seconds without another line after which it has written all
MOST_STACKS = 256 * 1024  # bytes that are read of what it wrote


class ProcessLauncher:
    """Starts children of this interpreter."""

    isolates = True

    def __init__(self, options: WorkerOptions, folder: Folder, totals: Totals | None = None) -> None:
        self._options = options
        self._folder = folder
        self._totals = totals or Totals()

    async def launch(self, spec: ChildSpec) -> "RealChild":
        """Start a child and tell it what to be."""
        options = self._options
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "standfast.hosts.child", str(theirs.fileno())]
            try:
                process = WaitedProcess(
                    command, pass_fds=[theirs.fileno(), self._folder.lock], env=self._environment()
                )
            except BaseException:
                ours.close()
                raise
        files = ChildFiles.of(self._folder.path, spec.worker)
        child = RealChild(process, await SocketChannel.over(ours), files, self._totals)
        self._totals.watch(files.counts)
        child.channel.send(configuration(spec, options, files))
        return child

    def _environment(self) -> dict[str, str]:
        """Pass --url on as the variable that overrides it everywhere, so that handlers enqueue there too."""
        url = self._options.url
        return {**os.environ, URL_VARIABLE: url} if url else dict(os.environ)


@dataclass(frozen=True, slots=True)
class ChildFiles:
    """Where a child writes down what is to outlive it: its claims, its stacks, the end of its log.

    `kept` is where its supervisor writes, and it reads, until when its locks are kept; in `counts` it counts for
    metrics.
    """

    notes: Path
    stacks: Path
    log: Path
    kept: Path
    counts: Path

    @classmethod
    def of(cls, folder: Path, worker: str) -> "ChildFiles":
        """Return the files of one child."""
        return cls(*(folder / f"{worker}.{name}" for name in ("notes", "stacks", "log", "kept", "counts")))


def configuration(spec: ChildSpec, options: WorkerOptions, files: ChildFiles) -> Configure:
    """Return the first word to a child: what it is to be."""
    return Configure(
        worker=spec.worker,
        target=options.target,
        app_dir=options.app_dir,
        notes=str(files.notes),
        dump=str(files.stacks),
        log=str(files.log),
        kept=str(files.kept),
        concurrency=options.concurrency,
        queues=options.queues,
        lease=options.lease,
        grace=options.grace,
        group=spec.group,
        logs=options.logs,
        counts=str(files.counts) if options.metrics else "",
        counts_dir=options.metrics_dir or "",
    )


class RealChild:
    """A child process."""

    killable = True

    def __init__(self, process: WaitedProcess, channel: SocketChannel, files: ChildFiles, totals: Totals) -> None:
        self._process = process
        self._files = files
        self._totals = totals
        self._left: Mapping[str, str] = {}
        self.channel = channel
        self.claim_log = ClaimLogFileReader(files.notes)

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    async def wait(self) -> Exit:
        """Return how it ended, once it has."""
        ended = await self._process.ended()
        self._left = ended.left
        self.channel.hear_out()  # a process that a handler has forked may live on, with our line in its hands
        return ended.exit

    def kill(self) -> None:
        """End it at once."""
        self._process.signal(signal.SIGKILL)

    async def stacks(self) -> str:
        """Return where its threads are, as well as that can be known."""
        file = self._files.stacks
        if not file.exists():
            return ""  # it is not ready, and the signal would end it
        before = size = file.stat().st_size
        self._process.signal(signal.SIGUSR1)
        give_up_at = time.monotonic() + STACKS_WITHIN
        while time.monotonic() < give_up_at:
            await asyncio.sleep(STACKS_SETTLE)
            size, seen = file.stat().st_size, size
            if before < size == seen:
                break
        return tail_of(file, size - before)

    async def seen_from_outside(self) -> Mapping[str, str]:
        """Return what /proc tells of it and, if that is installed, py-spy."""
        return await seen_from_outside(self.pid)

    def remains(self) -> Mapping[str, str]:
        """Return what it has written down for others by now, and what the kernel told of it at its end."""
        written = {"stacks": tail_of(self._files.stacks), "log": read_ring(self._files.log)}
        return {**self._left, **{name: text for name, text in written.items() if text}}

    def forget(self) -> None:
        """Remove what it left behind on disk; what it has counted is kept."""
        self._totals.fold(self._files.counts)
        for file in astuple(self._files):
            file.unlink(missing_ok=True)


def tail_of(file: Path, most: int = MOST_STACKS) -> str:
    """Return the end of what is in a file; nothing where there is none."""
    try:
        with file.open("rb") as opened:
            opened.seek(max(file.stat().st_size - min(most, MOST_STACKS), 0))
            return opened.read().decode(errors="replace")
    except OSError:
        return ""
