"""A latch, a wake-up, a thread on demand, and coroutines without a loop."""

import asyncio
import math
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar


class Latch:
    """A flag that is set once: a `threading.Event` that coroutines can await, too.

    A signal handler that raises in a waiting thread can leave the lock of Python's events taken for ever. Here it
    leaves none: `set` never hangs.
    """

    def __init__(self) -> None:
        self.is_set = False
        self._wakes: set[Callable[[], object]] = set()

    def set(self) -> None:
        """Set it and wake all who wait, from any thread. A call that was interrupted may be repeated."""
        self.is_set = True
        for wake in list(self._wakes):
            with suppress(RuntimeError):  # its event loop is closed: nobody waits there any more
                wake()

    def wait(self, seconds: float | None = None) -> bool:
        """Block this thread until it is set, for so many seconds at most; return whether it is set."""
        if not self.is_set:
            # A lock of its own: where a signal comes as the time is up, a queue of Python 3.11 would wait for ever.
            woken = threading.Lock()
            woken.acquire()
            wake = woken.release
            self._wakes.add(wake)
            try:
                if not self.is_set:  # asked again, as it may have been set just before
                    woken.acquire(timeout=-1 if seconds is None else max(0, min(seconds, threading.TIMEOUT_MAX)))
            finally:
                self._wakes.discard(wake)
        return self.is_set

    async def await_(self, seconds: float | None = None) -> bool:
        """Wait as `wait` does, without blocking the event loop."""
        import asyncio  # noqa: PLC0415 - a fifth of what it takes to import us, and here it is loaded already

        if not self.is_set:
            loop = asyncio.get_running_loop()
            woken: asyncio.Future[None] = loop.create_future()
            wake = partial(loop.call_soon_threadsafe, _wake, woken)
            self._wakes.add(wake)
            try:
                if not self.is_set:
                    await asyncio.wait([woken], timeout=seconds)
            finally:
                self._wakes.discard(wake)
        return self.is_set


def _wake(waiting: "asyncio.Future[None]") -> None:
    if not waiting.done():
        waiting.set_result(None)


class Wakeup:
    """Ends the sleep of a loop; a call while the loop is busy makes it skip the next sleep."""

    def __init__(self) -> None:
        self._called = asyncio.Event()
        self.call = self._called.set
        """Ends the rest of the loop, or its next one; to be called in its own event loop."""

    async def rest(self, seconds: float | None) -> bool:
        """Rest until called, but no longer than this; return whether there was a call."""
        if not self._called.is_set():
            try:
                async with asyncio.timeout(seconds):  # wait_for of Python 3.11 may swallow a cancellation
                    await self._called.wait()
            except TimeoutError:
                return False
        self._called.clear()
        return True


#     called ─► starts ─► attends, and is woken by each call ─► has nothing to do for a moment ─► leaves
#
# After it left, the next call starts another.


class OnDemandThread:
    """The thread of one owner, who also guards by its `lock` what both of them change.

    `live` is what it does until it has left; `failed` hears what that raises, and has to `leave` for it.
    """

    def __init__(self, name: str, live: Callable[[], None], failed: Callable[[Exception], None]) -> None:
        self.lock = threading.RLock()  # a signal's handler may call it too, in the thread that has the lock
        self._name = name
        self._live = live
        self._failed = failed
        self._thread: threading.Thread | None = None
        self._previous: threading.Thread | None = None
        self._attends = False
        self._wake: Callable[[], object] | None = None

    def call(self) -> None:
        """Have it look at what there is to do, and start it unless it is there."""
        with self.lock:
            if not self._attends:
                thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                thread.start()
                self._begin(thread)
            self._call()

    def attend(self, wake: Callable[[], object]) -> None:
        """Let it be woken like this from now on."""
        with self.lock:
            self._wake = wake

    def leave(self) -> None:
        """Let it go: who calls from now on starts another."""
        with self.lock:
            self._attends, self._wake = False, None

    def join(self) -> None:
        """Wake it for the last time, and wait for its end."""
        with self.lock:
            self._call()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _call(self) -> None:
        if self._wake is not None:
            self._wake()

    def _begin(self, thread: threading.Thread) -> bool:
        """Let a thread attend unless another does.

        Its starter calls this, and so does the thread itself, because the starter may be interrupted before.
        """
        with self.lock:
            if not self._attends:
                self._previous, self._thread, self._attends = self._thread, thread, True
            return self._thread is thread

    def _run(self) -> None:
        if not self._begin(threading.current_thread()):
            return
        if self._previous is not None:
            self._previous.join()  # it has left and is tidying up
        try:
            self._live()
        except Exception as error:  # noqa: BLE001 - whoever counts on it has to hear of that
            self._failed(error)


T = TypeVar("T")


def run_without_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits, without an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        answer: T = stop.value
        return answer
    raise RuntimeError(f"{coroutine!r} waits, and there is no event loop to wait in")


async def await_to_end(coroutine: Coroutine[Any, Any, T], within: float | None = None) -> T:
    """Await a coroutine to its end, even if this call is cancelled: the cancellation is raised after the end.

    If the coroutine has not ended `within` so many seconds after the first cancellation, it is cancelled too.
    """
    task, cancelled = asyncio.ensure_future(coroutine), None
    until = math.inf
    while not task.done():
        try:
            if not (await asyncio.wait([task], timeout=_until(until)))[0]:
                until = math.inf
                task.cancel()
        except asyncio.CancelledError as error:
            if cancelled is None and within is not None:
                until = time.monotonic() + within
            cancelled = error
    if cancelled is None:
        return task.result()
    if not task.cancelled() and (failure := task.exception()) is not None:
        cancelled.add_note(f"what it was cancelled in failed: {failure}")
    raise cancelled


def _until(moment: float) -> float | None:
    return None if moment == math.inf else max(moment - time.monotonic(), 0)


def refuse_in_event_loop(call: str, instead: str, error: type[Exception]) -> None:
    """Refuse to wait in the thread of an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise error(f"{call} would block the event loop: write `{instead}` in async code")
