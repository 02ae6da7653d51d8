"""Restarts the loops of a worker or supervisor when they fail, and reports code that blocks the event loop.

A loop that fails is restarted after 0.1 s, doubling to 5 s. After five failures within a minute, or where it cannot be
restarted (HalfDoneError), the worker is unfit: it claims nothing more, drains, and is replaced.
"""

import asyncio
import logging
import os
import re
import sys
import sysconfig
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from msgspec.structs import replace

from standfast.events import LoopBlocked
from standfast.model.clock import Clock
from standfast.observe.logs.job_log import OUR_THREADS
from standfast.worker.unhandled import ErrorSource, attempt_behind

FIRST_REST = 0.1
LONGEST_REST = 5.0
MOST_FAILURES = 5
WITHIN = 60.0
"""Seconds in which so many failures make a worker unfit; also those after which a loop rests shortly again."""

Loop = Callable[[], Coroutine[Any, Any, None]]


class HalfDoneError(Exception):
    """A loop failed where it cannot be begun again: what it was about to do is in nobody's hands now."""


class LoopRestarter:
    """Looks after the loops of one process. `failed` hears of each failure, `unfit` once that they are too many."""

    def __init__(
        self, clock: Clock, failed: Callable[[str, BaseException, str], None], unfit: Callable[[str], None]
    ) -> None:
        self._clock = clock
        self._failed = failed
        self._unfit = unfit
        self._failed_at: deque[float] = deque(maxlen=MOST_FAILURES)
        self._is_unfit = False

    async def tend(self, name: str, loop: Loop) -> None:
        """Run a loop until it returns, begun again after each failure."""
        rest = FIRST_REST
        while True:
            begun_at = self._clock.boot()
            try:
                await loop()
            except HalfDoneError as error:
                self.give_up(name, error)
                return
            except Exception as error:  # noqa: BLE001 - whatever it is, the worker is not to die of it
                if self._clock.boot() - begun_at >= WITHIN:
                    rest = FIRST_REST
                self._heed(name, error, rest)
                await asyncio.sleep(rest)
                rest = min(2 * rest, LONGEST_REST)
            else:
                return

    def _heed(self, name: str, error: Exception, rest: float) -> None:
        now = self._clock.boot()
        self._failed_at.append(now)
        too_many = len(self._failed_at) == MOST_FAILURES and now - self._failed_at[0] <= WITHIN
        if too_many and not self._is_unfit:
            self.give_up(name, error)
        else:
            self._failed(name, error, f"begun again after {rest:g} s")

    def give_up(self, name: str, error: BaseException) -> None:
        """Have the worker replaced at once, for something that cannot be begun again."""
        self._failed(name, error, "it is the last time")
        if not self._is_unfit:
            self._is_unfit = True
            self._unfit(f"its {name} failed: {type(error).__name__}: {error}")


_NANO = 1_000_000_000


class ProcessorWait:
    """Tells, in any thread, for how many seconds the one that made it has waited; 0 where nobody knows."""

    def __init__(self) -> None:
        file = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        self._opened: int | None = None
        with suppress(OSError):
            self._opened = os.open(file, os.O_RDONLY | os.O_CLOEXEC)

    def __call__(self) -> float:
        """Return that many seconds."""
        opened = self._opened
        if opened is None:
            return 0.0
        try:
            return int(os.pread(opened, 100, 0).split()[1]) / _NANO
        except (OSError, IndexError, ValueError):
            return 0.0

    def close(self) -> None:
        """Let go of the file: whoever watches may end long before the process does."""
        opened, self._opened = self._opened, None
        if opened is not None:
            os.close(opened)


_OURS = str(Path(__file__).resolve().parents[1]) + "/"
_LIBRARY = tuple({f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib")})
_PACKAGES = ("/site-packages/", "/dist-packages/")
_LINE = re.compile(r'^ *File "(.+)", line (\d+),? in (.+)$', re.MULTILINE)
_INNERMOST_FIRST = "most recent call first"


def users_frame(innermost: FrameType | None) -> FrameType | None:
    """Return the innermost frame of a stack that is the user's own; None where there is none.

    Where the user's app is an installed package itself, that is the outermost frame of any package.
    """
    frames: list[FrameType] = []
    while innermost is not None:
        frames.append(innermost)
        innermost = innermost.f_back
    index = _users(frame.f_code.co_filename for frame in frames)
    return None if index is None else frames[index]


def users_line(stack: str) -> str:
    """Return the same of one thread's stack as text: `jobs.py:12 in render`; nothing where there is none."""
    lines = _LINE.findall(stack) if _INNERMOST_FIRST in stack else _LINE.findall(stack)[::-1]
    index = _users(file for file, _, _ in lines)
    if index is None:
        return ""
    file, line, function = lines[index]
    return f"{_from_here(file)}:{line} in {function}"


def _users(files: Iterable[str]) -> int | None:
    """Return which of the files of a stack, the innermost first, is the user's own."""
    packaged = None
    for index, file in enumerate(files):
        if any(each in file for each in _PACKAGES):
            packaged = index if not file.startswith(_OURS) else packaged
        elif not file.startswith((_OURS, "<frozen ", *_LIBRARY)):
            return index
    return packaged


def place_of(frame: FrameType) -> str:
    """Return a file and line as people write it: from the working directory where it is below that."""
    return f"{_from_here(frame.f_code.co_filename)}:{frame.f_lineno}"


def _from_here(file: str) -> str:
    return file.removeprefix(f"{Path.cwd()}/")


# A thread checks the loop's sign of life while jobs run. Where this thread itself was late, the process was
# stopped, which is no fault, or, if it used the processor meanwhile, some code held the interpreter. Waiting for a
# processor is no fault.

log = logging.getLogger(__name__)

TURN = 0.1
TELL_EVERY = 60.0  # seconds between two words about one place
TOO_LONG = 5.0  # seconds after which it is not waited for its end any more before it is told
MOST_PLACES = 200


@dataclass(slots=True)
class _Place:
    told_at: float
    count: int = 0


class BlockedLoopMonitor:
    """Watches the event loop in which it is made; `limit` is how many seconds it may not turn."""

    def __init__(self, limit: float, tell: Callable[[LoopBlocked], None]) -> None:
        self._limit = limit
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._busy = threading.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._waits = ProcessorWait()
        self._turned_at = 0.0
        self._waited = 0.0
        self._places: dict[str, _Place] = {}
        self._over = False
        threading.Thread(target=self._look_on, name=f"{OUR_THREADS}loop-watch", daemon=True).start()

    def watch(self, busy: bool) -> None:
        """Hear, on the event loop, whether jobs run."""
        if busy and self._timer is None:
            self._turn()
            self._busy.set()
        elif not busy and self._timer is not None:
            self._timer.cancel()
            self._timer, self._turned_at = None, time.monotonic()
            self._busy.clear()

    def end(self) -> None:
        """Look no more: the loop is about to end."""
        self.watch(busy=False)
        self._over = True
        self._busy.set()

    def _turn(self) -> None:
        self._waited = self._waits()
        self._turned_at = time.monotonic()
        self._timer = self._loop.call_later(TURN, self._turn)

    # -- in a thread of its own ----------------------------------------------------------------------------------

    def _look_on(self) -> None:
        waits_here = ProcessorWait()
        try:
            self._look_until_over(waits_here)
        finally:
            waits_here.close()
            self._waits.close()  # here: the loop asks no more when all is over

    def _look_until_over(self, waits_here: ProcessorWait) -> None:
        while True:
            self._busy.wait()
            if self._over:
                return
            due_at, lived = self._turned_at + TURN + self._limit, time.process_time() + self._waits()
            waited_here = waits_here()
            time.sleep(max(due_at - time.monotonic(), 0.0))
            now = time.monotonic()
            late, turned_at, waited = now - due_at - (waits_here() - waited_here), self._turned_at, self._waited
            if now - turned_at < TURN + self._limit or not self._busy.is_set():
                continue
            nothing_ran = late > self._limit / 2
            if nothing_ran and time.process_time() + self._waits() - lived < late / 2:
                self._turned_at, self._waited = now, self._waits()  # it was stopped: begin anew
            elif (seen := self._see(nothing_ran)) is not None:
                self._tell_of(seen, turned_at, waited)
            else:
                time.sleep(TURN)

    def _see(self, nothing_ran: bool) -> LoopBlocked | None:
        """Return who is there now; None where it is nobody but the loop itself."""
        frames = sys._current_frames()  # noqa: SLF001 - the documented way
        frame, whose = users_frame(frames.pop(self._loop_thread, None)), None
        if frame is not None:
            whose = self._whose()
        elif nothing_ran:
            frame = next((each for each in map(users_frame, frames.values()) if each is not None), None)
        if frame is None and not nothing_ran:
            return None
        return _blocked(frame, whose, interpreter=nothing_ran)

    def _whose(self) -> ErrorSource | None:
        task = asyncio.current_task(self._loop)
        return None if task is None else attempt_behind(task)

    def _tell_of(self, seen: LoopBlocked, turned_at: float, waited: float) -> None:
        """Wait until the loop turns again, and tell for how long it did not, if that is too long."""
        waits_until = turned_at + TURN + TOO_LONG
        while self._turned_at == turned_at and time.monotonic() < waits_until:
            time.sleep(TURN)
        goes_on = self._turned_at == turned_at
        ended_at = time.monotonic() if goes_on else self._turned_at
        seconds = ended_at - turned_at - TURN - (self._waits() - waited)
        if seconds >= self._limit:
            self._tell_seldom(replace(seen, seconds=seconds))
        if goes_on:
            who = f"{seen.task} {seen.job_id}" if seen.task else "something"
            log.warning("%s blocks the event loop, and goes on: at %s", who, seen.place)
        while self._turned_at == turned_at and not self._over:
            time.sleep(TURN)

    def _tell_seldom(self, seen: LoopBlocked) -> None:
        """Tell of a place once a minute, and how often it was seen."""
        place = self._places.pop(seen.place, None) or _Place(-TELL_EVERY)
        self._places[seen.place] = place
        place.count += 1
        now = time.monotonic()
        if now - place.told_at >= TELL_EVERY:
            with suppress(RuntimeError):  # the loop has ended meanwhile
                self._loop.call_soon_threadsafe(self._tell, replace(seen, count=place.count))
            place.told_at, place.count = now, 0
        if len(self._places) > MOST_PLACES:
            del self._places[next(iter(self._places))]


def _blocked(frame: FrameType | None, whose: ErrorSource | None, *, interpreter: bool) -> LoopBlocked:
    place = "" if frame is None else place_of(frame)
    if whose is None:
        return LoopBlocked(0.0, place, interpreter=interpreter)
    return LoopBlocked(0.0, place, whose.job.task, whose.job.job_id, interpreter=interpreter)
