"""One instance: a process, or a tree of them, in a group of its own."""

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

from game.contender import Launch
from standfast.errors import StandfastError

STOP_WITHIN = 45.0
"""Seconds after which an instance that was asked to stop, and has not, is an error."""

_STOPPED = (0, -signal.SIGTERM)
"""How one ends that was asked to: also one that had not yet begun, and so had nothing in hand."""

_LAST_LINES = 5


class Instance:
    """A program that was started. Nothing but its own group is ever signalled."""

    def __init__(self, name: str, process: Process, log: Path) -> None:
        self.name = name
        self._process = process
        self._log = log

    @classmethod
    async def start(cls, name: str, launch: Launch, log: Path) -> "Instance":
        """Start it; what it says goes to a file."""
        with log.open("wb") as out:
            process = await asyncio.create_subprocess_exec(
                *launch.command,
                cwd=log.parent,  # a settings file of the folder that we are in is not meant for it
                env=dict(launch.environment),
                stdin=DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        return cls(name, process, log)

    async def watch(self, until: Coroutine[Any, Any, None]) -> None:
        """Let it work until something has happened. Raises StandfastError if it ends by itself."""
        ended, enough = asyncio.create_task(self._process.wait()), asyncio.create_task(until)
        try:
            await asyncio.wait((ended, enough), return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()
            enough.cancel()
        if not enough.done():
            code = self._process.returncode
            raise StandfastError(f"instance {self.name} of the game ended by itself with code {code}: {self._said}")

    async def stop(self) -> None:
        """Ask it to stop, and wait until it has."""
        self._process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_WITHIN):
                code = await self._process.wait()
        except TimeoutError as error:
            raise StandfastError(
                f"instance {self.name} of the game did not stop within {STOP_WITHIN:g} s: {self._said}"
            ) from error
        if code not in _STOPPED:
            raise StandfastError(f"instance {self.name} of the game stopped with code {code}: {self._said}")

    async def kill(self) -> None:
        """End all its processes at once, unless it has ended: then its number may be another's by now."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()

    @property
    def _said(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()[-_LAST_LINES:]
        return " / ".join(lines) or "it said nothing"
