"""Starts, keeps warm, hands out and replaces the subprocesses for isolated tasks."""

import asyncio
import logging
import os
import signal
from collections import deque
from collections.abc import Coroutine
from datetime import timedelta
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from msgspec.structs import replace

from standfast.model.backoff import RetryDelays
from standfast.model.clock import Clock
from standfast.model.incidents import Trouble
from standfast.model.job import Ending
from standfast.worker.attempt import Closed, Marked, Started
from standfast.worker.completer import Judge
from standfast.worker.control import Control
from standfast.worker.isolation.memory import CellGroup, find_home
from standfast.worker.isolation.messages import FromCell, Furnish, Leave, Ready
from standfast.worker.isolation.remote_attempt import Notice, RemoteAttempt, ending_of_unstarted
from standfast.worker.isolation.subprocess import End, Subprocess
from standfast.worker.messages import Failed, Noticed

_numbers = count(1)


class UnableError(Exception):
    """A cell could not be started, for this reason."""


async def start_cell(furnish: Furnish, home: Path | None) -> Subprocess:
    """Return a cell that is ready. Raises UnableError where there can be none."""
    group = None if home is None else CellGroup.make(home, f"standfast-{os.getpid()}-{next(_numbers)}")
    try:
        cell = await Subprocess.start(group, furnish.folder)
    except OSError as error:
        if group is not None:
            group.remove()
        raise UnableError(f"a process cannot be started: {error}") from error
    try:
        await _ready(cell, furnish)
    except BaseException:
        await cell.kill()
        cell.forget()
        raise
    return cell


async def _ready(cell: Subprocess, furnish: Furnish) -> None:
    """Furnish a cell, and wait until it is ready."""
    answer: asyncio.Future[FromCell] = asyncio.get_running_loop().create_future()

    def heard(message: FromCell) -> None:
        if not answer.done():
            answer.set_result(message)

    cell.listener = heard
    cell.send(furnish)
    limit = furnish.settings.hang_limit
    either: list[asyncio.Future[Any]] = [answer, cell.gone]
    await asyncio.wait(either, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
    cell.listener = None
    match answer.result() if answer.done() else None:
        case Ready():
            cell.is_ready()
        case Failed(reason=reason):
            raise UnableError(reason)
        case _ if cell.gone.done():
            raise UnableError(f"a process that loads the app {cell.gone.result()}\n{cell.last_stacks}".rstrip())
        case _:
            raise UnableError(f"a process did not load the app within {limit:g} s:\n{await cell.stacks()}")


# The pool keeps as many subprocesses as attempts ran at a time, plus a spare one, up to the concurrency. It
# replaces one after so many jobs, after so long, when it has grown, or when leftovers of its jobs could harm the
# next one.

log = logging.getLogger(__name__)

MOST_JOBS = 1_000
LONGEST_LIFE = 3_600.0
MOST_GROWTH = 128 * 1024**2  # after so many jobs, seconds, or bytes more than at first, a cell is replaced
MOST_LEFT_OVER = 0.5
"""The part of its limit that a job may find taken by earlier ones: it may free that, and then take so much more."""

IDLE_FOR = 300.0  # seconds after which a cell that nobody needed is let go
LEAVE_WITHIN = 6.0  # seconds for a cell to tear down what its app has set up
LONGEST_PAUSE = 60.0  # seconds between two tries to start a cell, at most


class SubprocessPool:
    """All cells of one worker."""

    def __init__(self, furnish: Furnish, clock: Clock, random: Random, notice: Notice) -> None:
        self._furnish = furnish
        self._clock = clock
        self._notice = notice
        self._loop = asyncio.get_running_loop()
        self._home = find_home()
        self._pauses = RetryDelays(random, LONGEST_PAUSE)
        self._unable_until = 0.0
        self._starting: set[asyncio.Task[None]] = set()
        self._cells: set[Subprocess] = set()
        self._idle: list[Subprocess] = []
        self._waiting: deque[tuple[asyncio.Future[Subprocess], int | None]] = deque()
        self._needed = 0
        self._trimming: asyncio.TimerHandle | None = None
        self._farewells: set[asyncio.Task[None]] = set()
        self._closing = False
        self._keep_warm()

    async def run(
        self, control: Control, judge: Judge, marked: Marked, closed: Closed, started: Started
    ) -> Ending | None:
        """Run an attempt in a cell; return how it ends, None where its claim is lost."""
        self._needed += 1
        cell, sound = None, False
        try:
            cell = await self._cell_for(control, judge.policy.memory)
            sound = True
            if control.may_start and not await marked():
                return None
            if not control.may_start:
                return judge.put_off()
            if (closed_for := closed()) is not None:  # a window has begun while it waited for its cell
                return judge.put_off(closed_for)
            sound = False
            judge = replace(judge, started_at=self._clock.now())
            started(judge)
            carrying = RemoteAttempt(
                cell, control, judge, clock=self._clock, grace=self._furnish.settings.grace, notice=self._notice
            )
            ending = await carrying.carry()
            sound = carrying.sound
        except UnableError:
            return judge.put_off(timedelta(seconds=self._unable_until - self._loop.time()))
        except asyncio.CancelledError:
            if cell is not None or control.why is None:
                raise
            return ending_of_unstarted(control, judge)
        else:
            return ending
        finally:
            self._needed -= 1
            if cell is not None:
                self._take_back(cell, sound=sound)

    async def close(self) -> None:
        """Let all cells go, and see to it that they are gone."""
        self._closing = True
        for start in self._starting:
            start.cancel()
        for cell in list(self._cells):
            self._let_go(cell)
        ending = [*self._starting, *self._farewells]
        if ending:
            await asyncio.wait(ending)

    # -- who gets a cell -------------------------------------------------------------------------------------

    async def _cell_for(self, control: Control, memory: int | None) -> Subprocess:
        """Return a cell for an attempt, once there is one. Raises UnableError where there can be none."""
        while self._idle:
            cell = self._idle.pop()
            if cell.alive and _is_fit(cell, memory):
                self._keep_warm()
                return cell
            self._let_go(cell)
        if self._loop.time() < self._unable_until or self._closing:
            raise UnableError
        place: asyncio.Future[Subprocess] = self._loop.create_future()
        self._waiting.append((place, memory))
        self._keep_warm()
        control.cancellable = True
        try:
            return await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.exception() is None:
                self._take_back(place.result(), sound=True)
            raise
        finally:
            control.cancellable = False

    def _take_back(self, cell: Subprocess, *, sound: bool) -> None:
        cell.jobs += 1
        if not sound:
            cell.signal_group(signal.SIGKILL)  # whatever runs there must not go on
        if not sound or not cell.alive or self._closing or self._is_worn(cell):
            self._let_go(cell)
            self._keep_warm()
        else:
            self._offer(cell)

    def _offer(self, cell: Subprocess) -> None:
        """Give a cell to who has waited longest, or keep it for the next; one that is not fit is replaced."""
        while self._waiting:
            place, memory = self._waiting[0]
            if not place.done() and not _is_fit(cell, memory):
                self._let_go(cell)
                self._keep_warm()
                return
            self._waiting.popleft()
            if not place.done():
                place.set_result(cell)
                return
        cell.idle_since = self._loop.time()
        self._idle.append(cell)
        if self._trimming is None and len(self._idle) > 1:
            self._trimming = self._loop.call_later(IDLE_FOR, self._trim)

    # -- how many there are ----------------------------------------------------------------------------------

    def _keep_warm(self) -> None:
        """Have as many cells as are needed, and one to spare."""
        wanted = min(self._furnish.settings.concurrency, self._needed + 1)
        missing = wanted - len(self._cells) - len(self._starting)
        if self._closing or self._loop.time() < self._unable_until:
            return
        for _ in range(missing):
            self._begin(self._starting, self._start())

    async def _start(self) -> None:
        try:
            cell = await start_cell(self._furnish, self._home)
        except UnableError as error:
            self._unable(str(error))
            return
        self._pauses.reset()
        self._cells.add(cell)
        cell.gone.add_done_callback(lambda end: self._gone(cell, end))
        self._offer(cell)

    def _unable(self, reason: str) -> None:
        """Give up for a while: whoever waits is put off, and nothing is charged to anybody."""
        pause = max(1.0, self._pauses.next())
        self._unable_until = self._loop.time() + pause
        log.error("a process for isolated tasks could not be started, next try in %.0f s: %s", pause, reason)
        summary = f"a process for isolated tasks could not be started: {reason.partition(chr(10))[0]}"
        self._notice(Noticed(Trouble.CRASH, summary, "isolated:start", {"reason": reason}))
        while self._waiting:
            place, _ = self._waiting.popleft()
            if not place.done():
                place.set_exception(UnableError(reason))
        self._loop.call_later(pause, self._keep_warm)

    def _trim(self) -> None:
        """Let go what nobody needed for a while."""
        self._trimming = None
        old = self._loop.time() - IDLE_FOR
        unneeded = [cell for cell in self._idle[:-1] if cell.idle_since <= old]
        for cell in unneeded:
            self._let_go(cell)
        if len(self._idle) > 1:
            self._trimming = self._loop.call_later(IDLE_FOR / 2, self._trim)

    def _is_worn(self, cell: Subprocess) -> bool:
        lived = self._loop.time() - cell.started_at
        return cell.jobs >= MOST_JOBS or lived >= LONGEST_LIFE or cell.left_over > MOST_GROWTH or cell.haunted

    def _let_go(self, cell: Subprocess) -> None:
        """Have a cell tear down and end; it counts no more."""
        self._cells.discard(cell)
        if cell in self._idle:
            self._idle.remove(cell)
        if not cell.gone.done():
            cell.send(Leave())
        self._begin(self._farewells, _farewell(cell))

    def _gone(self, cell: Subprocess, _: asyncio.Future[End]) -> None:
        """Replace a cell that died with nothing to do: nobody else hears of it."""
        if cell in self._idle:
            self._let_go(cell)
            self._keep_warm()

    def _begin(self, running: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        running.add(task)
        task.add_done_callback(running.discard)


def _is_fit(cell: Subprocess, memory: int | None) -> bool:
    """Tell whether a cell can be handed on: what its jobs have left must not harm one with this limit of memory."""
    if cell.jobs == 0:
        return True
    if cell.haunted or cell.has_leftover_processes:
        return False
    return memory is None or cell.left_over <= memory * MOST_LEFT_OVER


async def _farewell(cell: Subprocess) -> None:
    await asyncio.wait([cell.gone], timeout=LEAVE_WITHIN)
    await cell.kill()
    cell.forget()
