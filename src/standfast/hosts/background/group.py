"""All background work of an app in this process: its loop, its threads, and how it ends."""

import asyncio
import atexit
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from datetime import datetime, timedelta
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from standfast.errors import BackgroundClosedError, BackgroundError, BackgroundFullError
from standfast.hosts.background.work import CANCELLED, Call, Outcome, Work, work_here
from standfast.hosts.exit_threads import start_spare_threads, use_spare_threads
from standfast.model.display import counted, one_line, span

if TYPE_CHECKING:
    from standfast.app import Standfast

LAST_TURN = 1.0
"""Seconds for the loop to end."""


class OwnLoop:
    """A loop that begins when it is first asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: Callable[[], object] | None = None

    def get(self) -> asyncio.AbstractEventLoop:
        """Return the loop."""
        with self._lock:
            if self._loop is None:
                begun: Future[asyncio.AbstractEventLoop] = Future()
                name = "standfast-background-loop"
                self._thread = threading.Thread(
                    target=asyncio.run, args=(self._live(begun),), name=name, daemon=True
                )
                self._thread.start()
                self._loop = begun.result()
            return self._loop

    def close(self, spared: asyncio.AbstractEventLoop | None) -> None:
        """End the loop, and with it what is left in it; but not one on which somebody waits for that."""
        with self._lock:
            if spared is not None and self._loop is spared:
                return
            thread, end = self._thread, self._end
            self._thread = self._loop = self._end = None
        if thread is None or end is None:
            return
        with suppress(RuntimeError):  # it has ended already
            end()
        thread.join(LAST_TURN)

    async def _live(self, begun: "Future[asyncio.AbstractEventLoop]") -> None:
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        self._end = partial(loop.call_soon_threadsafe, over.set)
        begun.set_result(loop)
        await over.wait()


Piece = tuple[Callable[[], None], Callable[[], None]]
"""What a thread does, and what it does when it is free again for another."""


class Threads:
    """Threads that are started when they are needed, and kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pieces: SimpleQueue[Piece | None] = SimpleQueue()
        self._started = 0
        self._free = 0

    def submit(self, run: Callable[[], None], then: Callable[[], None]) -> None:
        """Run something in a free thread, or in one more; `then` is called there once the thread counts as free.

        Raises RuntimeError where the process cannot have another thread.
        """
        with self._lock:
            if self._free:
                self._free -= 1
            else:
                name = f"standfast-background-{self._started + 1}"
                threading.Thread(target=self._work, name=name, daemon=True).start()
                self._started += 1
        self._pieces.put((run, then))

    def close(self) -> None:
        """Let each thread end when it is free."""
        with self._lock:
            started, self._started, self._free = self._started, 0, 0
        for _ in range(started):
            self._pieces.put(None)

    def _work(self) -> None:
        while (piece := self._pieces.get()) is not None:
            run, then = piece
            del piece
            run()
            with self._lock:
                self._free += 1
            then()
            del run, then  # nothing of the work is kept while there is nothing to do


_ALL: "WeakSet[BackgroundGroup]" = WeakSet()
_at_exit = False


def end_at_exit() -> None:
    """See to it that the exit of this process ends all work.

    Before thread pools are shut down, which Python does before it calls what `atexit` knows: work that is told to
    end may need one to do so, and a store needs one to take in what failed. Hooks of threads are called in reverse
    order, so the one of thread pools has to be there already. Raises BackgroundClosedError where it is too late.
    """
    global _at_exit  # noqa: PLW0603 - a process exits once
    if not _at_exit:
        start_spare_threads()
        try:
            import concurrent.futures.thread  # noqa: F401, PLC0415 - its import sets that hook

            getattr(threading, "_register_atexit", atexit.register)(_close_all)
        except RuntimeError as error:
            raise BackgroundClosedError(
                "this process is about to end, and nothing begins in its background now: enqueue a job, which"
                " outlives it"
            ) from error
        _at_exit = True


def _close_all() -> None:
    use_spare_threads()
    for kept in list(_ALL):
        kept.close_at_exit()


def _begin_anew() -> None:
    for kept in list(_ALL):
        kept.after_fork()


os.register_at_fork(after_in_child=_begin_anew)


# The thread begins with the first exception. In a process without any, nothing of what makes incidents is even
# imported.

log = logging.getLogger(__name__)

REPORT_WITHIN = 3.0
"""Seconds for what is to be written when the app is closed."""


class ExceptionReporter:
    """Hears of exceptions in any thread."""

    def __init__(self, app: "Standfast", *, to_disk: bool) -> None:
        self._app = app
        self._to_disk = to_disk
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False
        self.heard_of: deque[tuple[Work[Any], BaseException]] = deque()
        self.wake: Callable[[], object] | None = None
        """Ends the rest of the thread, once it has one."""

    @property
    def closed(self) -> bool:
        """Whether no more will come."""
        return self._closed

    def heard(self, work: Work[Any], error: BaseException) -> None:
        """Hear of an exception. Never raises, nor waits for anything."""
        if not self._taken_in(work, error):
            with suppress(Exception):  # nothing is left to write an incident with, but the log may go on
                log.error("%s failed, and this is no incident: %s", work.name, work.call.scrub.text(repr(error)))

    def close(self) -> None:
        """Have told what is not, and wait for that, but not for long."""
        with self._lock:
            self._closed = True
            thread = self._thread
            self._wake()
        if thread is not None and thread is not threading.current_thread():
            thread.join(REPORT_WITHIN)

    def _taken_in(self, work: Work[Any], error: BaseException) -> bool:
        with self._lock:
            if self._closed:
                return False
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="standfast-background-incidents", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the process cannot have another thread
                    return False
                self._thread = thread
            self.heard_of.append((work, error))
            self._wake()
            return True

    def _wake(self) -> None:
        if self.wake is not None:
            with suppress(RuntimeError):  # the thread has ended
                self.wake()

    def _run(self) -> None:
        try:
            from standfast.hosts.background.incidents import report_exceptions  # noqa: PLC0415 - only for those who have something to tell

            report_exceptions(self, self._app, to_disk=self._to_disk)
        except Exception:
            log.exception("what fails in the background cannot be told any more")


# open ─► closed: nothing begins ─► all are told ─► grace ─► coroutines are cancelled ─► what goes on is named
# ▲                                                                                           │
# └───────────────────────────── opened again, or a forked process ◄──────────────────────────┘

MOST_WAITING = 10_000
"""Pieces of work that wait for others to end; more are refused."""

CANCEL_WITHIN = 1.0
"""Seconds for a coroutine to end when it is cancelled."""

AnyWork = Work[Any]


class BackgroundGroup:
    """The work of one app in this process. Everything may be called from any thread."""

    def __init__(self, app: "Standfast", *, to_disk: bool = True) -> None:
        self._app = app
        self._to_disk = to_disk
        self._begin_life()
        _ALL.add(self)

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
        self._reporter = ExceptionReporter(self._app, to_disk=self._to_disk)

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
                self._reporter = ExceptionReporter(self._app, to_disk=self._to_disk)

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
            if len(self._running) < self._app.settings.background_limit:
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
        self._wait(coroutines, CANCEL_WITHIN)
        self._tell_left([work for work in late if work.outcome is None], grace, never_began, kept_from_ending)
        self._reporter.close()
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
            self.close(self._app.settings.grace)

    def after_fork(self) -> None:
        """Begin anew in a forked process, which has none of the threads that the work was in."""
        inherited = [*self._running, *self._waiting]
        self._begin_life()
        for work in inherited:
            work.abandon()

    def _start(self, work: AnyWork) -> bool:
        """Begin with what has a place; return whether that was possible."""
        work.begin(self._app.clock.now())
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
                if self._closed or not self._waiting or len(self._running) >= self._app.settings.background_limit:
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
            self._reporter.heard(work, outcome.error)
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
        now = self._app.clock.now()
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
