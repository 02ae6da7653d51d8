"""The guard as its supervisor sees it: a tiny process that ends the children should the supervisor be killed.

A child that is well leaves when its supervisor is gone; one whose handler holds the interpreter cannot, nor may
what it has started. The guard is told of every child through a pipe, whose end it hears when the supervisor dies,
however it dies. It has a session of its own, so that no signal to the group reaches it, and never outlives a clean
stop.
"""

import asyncio
import logging
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from pathlib import Path

from standfast.model.configuration import Settings
from standfast.worker.storecalls import happens_within

log = logging.getLogger(__name__)
PATIENCE = 6.0  # seconds at most for orphans to leave by themselves, which they do if they are well
COMMAND = (sys.executable, "-I", "-S", str(Path(__file__).with_name("reaper_main.py")), str(PATIENCE))
LEAVES_WITHIN = 2.0  # seconds for the guard to end after the last child
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0
SETTLED_AFTER = 60.0  # seconds after which the end of a guard is a new trouble, and no more of the one before


def patience_for(settings: Settings) -> float:
    """Return how long orphans may take to leave: their last beat may have been a whole `beat_every` ago."""
    return max(0.0, min(PATIENCE, settings.lease - settings.beat_every - settings.margin))


class Reaper:
    """The guard over the children of one supervisor."""

    def __init__(self, command: Sequence[str] = COMMAND, settled_after: float = SETTLED_AFTER) -> None:
        self._command = command
        self._settled_after = settled_after
        self._patience: float | None = None
        self._pids: set[int] = set()
        self._process: Process | None = None

    @property
    def pid(self) -> int | None:
        """The number of its process, while there is one."""
        return None if self._process is None else self._process.pid

    def add(self, pid: int) -> None:
        """Guard a child."""
        self._pids.add(pid)
        self._say("+", pid)

    def remove(self, pid: int) -> None:
        """Guard it no more: it has ended."""
        self._pids.discard(pid)
        self._say("-", pid)

    def learn(self, settings: Settings) -> None:
        """Have orphans killed before their lease may be over, by when others get their jobs."""
        self._patience = patience_for(settings)
        self._say("=", self._patience)

    async def run(self) -> None:
        """Keep the guard alive; let it go when this is cancelled."""
        pause = FIRST_PAUSE
        while True:
            begun = time.monotonic()
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *self._command, stdin=PIPE, stdout=DEVNULL, start_new_session=True
                )
                if self._patience is not None:
                    self._say("=", self._patience)
                for pid in self._pids:
                    self._say("+", pid)
                await self._process.wait()
                why = f"it ended with {self._process.returncode}"
            except OSError as error:
                why = str(error)
            finally:
                await self._let_go()
            if time.monotonic() - begun >= self._settled_after:
                pause = FIRST_PAUSE
            if pause == FIRST_PAUSE:
                log.warning("no guard ends the children should this process be killed: %s; it is tried again", why)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _let_go(self) -> None:
        """Hang up; if none of the children is left the guard ends at once, and that is waited for."""
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        process.stdin.close()
        if self._pids or process.returncode is not None:
            return
        await happens_within(LEAVES_WITHIN, process.wait())

    def _say(self, sign: str, number: float) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.write(f"{sign}{number}\n".encode())
