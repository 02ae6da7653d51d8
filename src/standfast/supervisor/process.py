"""Real children: started with a fresh interpreter, spoken to over a socket pair, noted in a private folder."""

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from pathlib import Path

from standfast.metrics.totals import Totals
from standfast.settings import URL_VARIABLE
from standfast.supervisor.child import ChildSpec, Exit
from standfast.supervisor.evidence.outside import seen_from_outside
from standfast.supervisor.folder import Folder
from standfast.supervisor.offspring import Offspring
from standfast.supervisor.options import WorkerOptions
from standfast.worker.channel import SocketChannel
from standfast.worker.logring import read_ring
from standfast.worker.messages import Configure
from standfast.worker.notefile import FileLogReader

STACKS_WITHIN = 1.0
"""Seconds that a hung child is given to write down where it is."""

STACKS_SETTLE = 0.03
"""Seconds without another line after which it has written all."""

MOST_STACKS = 256 * 1024
"""Bytes that are read of what it wrote."""


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
            command = [sys.executable, "-m", "standfast.child", str(theirs.fileno())]
            try:
                process = Offspring(command, pass_fds=[theirs.fileno(), self._folder.lock], env=self._environment())
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

    def __init__(self, process: Offspring, channel: SocketChannel, files: ChildFiles, totals: Totals) -> None:
        self._process = process
        self._files = files
        self._totals = totals
        self._left: Mapping[str, str] = {}
        self.channel = channel
        self.notes = FileLogReader(files.notes)

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
