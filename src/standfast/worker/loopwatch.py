"""Notices code that blocks the event loop, and says whose it is and where: a thread that looks while jobs run.

    idle ─► jobs run: the loop leaves a sign every `TURN` seconds ─► none for too long? see who is there ─► tell
     ▲                                                                                                       │
     └───────────────────────────── none runs any more ◄─────────────────────────────────────────────────────┘

While no job runs, the thread sleeps and the loop leaves no signs. Where this thread itself was late, nothing of
this process could run: it was stopped, which is nobody's fault and not told; or somebody held the interpreter, if
the process used the processor meanwhile. Nor is it anybody's fault that the loop had to wait for a processor.
"""

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType

from msgspec.structs import replace

from standfast.events import LoopBlocked
from standfast.worker.logtail import OUR_THREADS
from standfast.worker.places import place_of, users_frame
from standfast.worker.processor import Waits
from standfast.worker.whose import Whose, attempt_behind

log = logging.getLogger(__name__)

TURN = 0.1
TELL_EVERY = 60.0
"""Seconds between two words about one place."""

TOO_LONG = 5.0
"""Seconds after which it is not waited for its end any more before it is told."""

MOST_PLACES = 200


@dataclass(slots=True)
class _Place:
    told_at: float
    count: int = 0


class LoopWatch:
    """Watches the event loop in which it is made; `limit` is how many seconds it may not turn."""

    def __init__(self, limit: float, tell: Callable[[LoopBlocked], None]) -> None:
        self._limit = limit
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._busy = threading.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._waits = Waits()
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
        waits_here = Waits()
        try:
            self._look_until_over(waits_here)
        finally:
            waits_here.close()
            self._waits.close()  # here: the loop asks no more when all is over

    def _look_until_over(self, waits_here: Waits) -> None:
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

    def _whose(self) -> Whose | None:
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


def _blocked(frame: FrameType | None, whose: Whose | None, *, interpreter: bool) -> LoopBlocked:
    place = "" if frame is None else place_of(frame)
    if whose is None:
        return LoopBlocked(0.0, place, interpreter=interpreter)
    return LoopBlocked(0.0, place, whose.job.task, whose.job.job_id, interpreter=interpreter)
