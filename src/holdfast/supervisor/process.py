"""Real children: started with a fresh interpreter, spoken to over a socket pair, noted in a private folder."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from asyncio.subprocess import Process
from pathlib import Path

from holdfast.settings import URL_VARIABLE
from holdfast.supervisor.child import ChildSpec, Exit
from holdfast.supervisor.options import WorkerOptions
from holdfast.worker.channel import SocketChannel
from holdfast.worker.messages import Configure
from holdfast.worker.notefile import FileLogReader

STACKS_WITHIN = 1.0
"""Seconds that a hung child is given to write down where it is."""


class ProcessLauncher:
    """Starts children of this interpreter."""

    def __init__(self, options: WorkerOptions, folder: Path) -> None:
        self._options = options
        self._folder = folder

    async def launch(self, spec: ChildSpec) -> "RealChild":
        """Start a child and tell it what to be."""
        options = self._options
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-m",
                    "holdfast.child",
                    str(theirs.fileno()),
                    pass_fds=[theirs.fileno()],
                    env=self._environment(),
                )
            except BaseException:
                ours.close()
                raise
        notes = self._folder / f"{spec.worker}.notes"
        dump = self._folder / f"{spec.worker}.stacks"
        child = RealChild(process, await SocketChannel.over(ours), notes, dump)
        child.channel.send(
            Configure(
                worker=spec.worker,
                target=options.target,
                app_dir=options.app_dir,
                notes=str(notes),
                dump=str(dump),
                concurrency=options.concurrency,
                queues=options.queues,
                lease=options.lease,
                grace=options.grace,
                alone=spec.alone,
                logs=options.logs,
            )
        )
        return child

    def _environment(self) -> dict[str, str]:
        """Pass --url on as the variable that overrides it everywhere, so that handlers enqueue there too."""
        url = self._options.url
        return {**os.environ, URL_VARIABLE: url} if url else dict(os.environ)


class RealChild:
    """A child process."""

    def __init__(self, process: Process, channel: SocketChannel, notes: Path, dump: Path) -> None:
        self._process = process
        self._files = notes, dump
        self.channel = channel
        self.notes = FileLogReader(notes)

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    async def wait(self) -> Exit:
        """Return how it ended, once it has."""
        end = Exit(await self._process.wait())
        self.channel.hear_out()  # a process that a handler has forked may live on, with our line in its hands
        return end

    def kill(self) -> None:
        """End it at once."""
        self._signal(signal.SIGKILL)

    async def stacks(self) -> str:
        """Return where its threads are, as well as that can be known."""
        self._signal(signal.SIGUSR1)
        _, dump = self._files
        await asyncio.sleep(STACKS_WITHIN)
        return dump.read_text(errors="replace") if dump.exists() else ""

    def _signal(self, number: signal.Signals) -> None:
        # Not by the process object: it first looks whether the process has ended, and would take its status away
        # from the event loop, which then reports 255.
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    def forget(self) -> None:
        """Remove what it left behind on disk."""
        for file in self._files:
            file.unlink(missing_ok=True)
