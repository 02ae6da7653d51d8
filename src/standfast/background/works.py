"""All the work in the background of one app: so much at a time, known by name, and ended with the app.

open ─► closed: nothing begins ─► all are told ─► grace ─► coroutines are cancelled ─► what goes on is named
 ▲                                                                                           │
 └───────────────────────────── opened again, or a forked process ◄──────────────────────────┘
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from contextvars import copy_context
from datetime import datetime, timedelta
from typing import Any

from standfast.background.calling import Call
from standfast.background.ownloop import OwnLoop
from standfast.background.processes import end_at_exit, remember
from standfast.background.teller import House, Teller
from standfast.background.threads import Threads
from standfast.background.work import CANCELLED, Outcome, Work, work_here
from standfast.errors import BackgroundClosedError, BackgroundError, BackgroundFullError
from standfast.words import counted, one_line, span

log = logging.getLogger(__name__)

MOST_WAITING = 10_000
"""Pieces of work that wait for others to end; more are refused."""

LAST_WORDS = 1.0
"""Seconds for a coroutine to end when it is cancelled."""

AnyWork = Work[Any]


class Works:
    """The work of one app in this process. Everything may be called from any thread."""

    def __init__(self, house: House, *, to_disk: bool = True) -> None:
        self._house = house
        self._to_disk = to_disk
        self._begin_life()
        remember(self)

    def _begin_life(self) -> None:
        # A collector may end a coroutine, and so settle its work, in the middle of anything that is done here.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._running: dict[AnyWork, None] = {}
        self._waiting: deque[AnyWork] = deque()
        self._left: set[AnyWork] = set()
        self._closed = False
        self._threads = Threads()
        self._own_loop = OwnLoop()
        self._teller = Teller(self._house, to_disk=self._to_disk)

    @property
    def all(self) -> tuple[AnyWork, ...]:
        """What runs, and what waits to begin."""
        with self._lock:
            return (*self._running, *self._waiting)

    def open(self) -> None:
        """Take in work again, after a close."""
        with self._lock:
            if self._closed:
                self._closed = False
                self._teller = Teller(self._house, to_disk=self._to_disk)

    def check_open(self) -> None:
        """Raise BackgroundClosedError after a close."""
        if self._closed:
            raise BackgroundClosedError(
                "the app was closed, and nothing begins in its background now: enqueue a job, which outlives it"
            )

    def begin(self, call: Call, *, may_wait: bool) -> AnyWork | None:
        """Begin with some work, or let it wait for its turn; None where there is no room and it may not wait."""
        end_at_exit()
        work = Work[Any](call, _running_loop() or self._own_loop.get() if call.is_async else None, self.settle)
        with self._lock:
            self.check_open()
            if len(self._running) < self._house.settings.background_limit:
                self._running[work] = None
            elif not may_wait:
                return None
            elif len(self._waiting) >= MOST_WAITING:
                raise BackgroundFullError(f"{counted(MOST_WAITING, 'piece')} of work wait already; try again later")
            else:
                self._waiting.append(work)
                return work
        if not self._start(work):
            self._end(work, CANCELLED)
            raise BackgroundError(f"{call.name} cannot begin: this process cannot start another thread")
        return work

    def settle(self, work: AnyWork, outcome: Outcome) -> None:
        """Take note of what became of a piece of work; what is said of it first counts."""
        if self._end(work, outcome):
            self._fill()

    def close(self, grace: float) -> None:
        """End all work: it is told, waited for, cancelled where it is a coroutine, and named where it goes on."""
        here, this_loop = work_here.get(), _running_loop()
        with self._lock:
            self._closed = True
            never_began = list(self._waiting)
            told = [work for work in self._running if work not in self._left]
        for work in never_began:
            self._end(work, CANCELLED)
        for work in told:
            work.life.end()
        running = [work for work in told if work is not here]  # it would wait for itself
        kept_from_ending = [work for work in running if work.loop is not None and work.loop is this_loop]
        for work in kept_from_ending:  # their loop stands still while this waits
            work.stop()
        waited_for = [work for work in running if work not in kept_from_ending]
        self._wait(waited_for, grace)
        late = [work for work in waited_for if work.outcome is None]
        coroutines = [work for work in late if work.loop is not None]
        for work in coroutines:
            work.stop()
        self._wait(coroutines, LAST_WORDS)
        self._tell_left([work for work in late if work.outcome is None], grace, never_began, kept_from_ending)
        self._teller.close()
        threads, self._threads = self._threads, Threads()  # who is still busy there finds its way out
        threads.close()
        self._own_loop.close(this_loop if here is None else here.loop)

    async def aclose(self, grace: float) -> None:
        """Close without blocking the event loop, on which some of the work may run."""
        closed: asyncio.Future[None] = (loop := asyncio.get_running_loop()).create_future()

        def close() -> None:
            try:
                self.close(grace)
            finally:
                with suppress(RuntimeError):  # the loop did not wait for it
                    loop.call_soon_threadsafe(over)

        def over() -> None:
            if not closed.done():
                closed.set_result(None)

        context = copy_context()
        threading.Thread(target=context.run, args=(close,), name="standfast-background-close", daemon=True).start()
        await closed

    def close_at_exit(self) -> None:
        """Close with the process: what a close before could not end is not waited for again."""
        if not self._closed or self._running:
            self.close(self._house.settings.grace)

    def after_fork(self) -> None:
        """Begin anew in a forked process, which has none of the threads that the work was in."""
        inherited = [*self._running, *self._waiting]
        self._begin_life()
        for work in inherited:
            work.abandon()

    # -- inside ----------------------------------------------------------------------------------------------

    def _start(self, work: AnyWork) -> bool:
        """Begin with what has a place; return whether that was possible."""
        work.begin(self._house.clock.now())
        if work.loop is not None and work.loop is _running_loop():
            work.begin_on_loop()
            return True
        outcomes: list[Outcome] = []
        try:
            if work.loop is None:
                self._threads.submit(
                    lambda: outcomes.append(work.run_here()), lambda: self.settle(work, outcomes[0])
                )
            else:
                work.loop.call_soon_threadsafe(work.begin_on_loop)
        except RuntimeError:  # there are too many threads, or its loop is closed
            return False
        return True

    def _fill(self) -> None:
        """Let those begin that waited for a place."""
        while True:
            with self._lock:
                if self._closed or not self._waiting or len(self._running) >= self._house.settings.background_limit:
                    return
                work = self._waiting.popleft()
                self._running[work] = None
            if not self._start(work):
                self._end(work, CANCELLED)

    def _end(self, work: AnyWork, outcome: Outcome) -> bool:
        with self._lock:
            if work.outcome is not None:
                return False
            work.outcome = outcome
            self._running.pop(work, None)
            self._left.discard(work)
            if work.started_at is None and work in self._waiting:
                self._waiting.remove(work)
            self._changed.notify_all()
        if outcome.error is not None:
            self._teller.heard(work, outcome.error)
        work.tell()
        return True

    def _wait(self, works: Iterable[AnyWork], seconds: float) -> None:
        """Wait until all of them are over, but no longer than this."""
        ends_at = time.monotonic() + seconds
        works = list(works)
        for work in works:
            if work.loop is not None and work.loop.is_closed():
                self._end(work, CANCELLED)
        with self._lock:
            self._changed.wait_for(
                lambda: all(work.outcome is not None for work in works), max(0.0, ends_at - time.monotonic())
            )

    def _tell_left(
        self, left: list[AnyWork], grace: float, never_began: list[AnyWork], kept_from_ending: list[AnyWork]
    ) -> None:
        """Say in one line what the close could not end."""
        with self._lock:
            self._left.update(left)
        now = self._house.clock.now()
        told = []
        if left:
            told.append(f"did not end within {span(timedelta(seconds=grace))}: {_named(left, now)}")
        if never_began:
            told.append(f"never began: {_named(never_began, now)}")
        if kept_from_ending:
            told.append(
                "was cancelled and not waited for, because app.close() was called on its event loop"
                f" (`await app.aclose()` waits): {_named(kept_from_ending, now)}"
            )
        if told:
            log.warning("work in the background %s", "; ".join(told))


def _named(works: list[AnyWork], now: datetime) -> str:
    most = 20
    words = [
        one_line(work.name, 100) + ("" if work.started_at is None else f" ({span(now - work.started_at)})")
        for work in works[:most]
    ]
    return ", ".join([*words, *([f"{len(works) - most:,} more"] if len(works) > most else [])])


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
