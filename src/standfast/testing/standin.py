"""What stands in for an app's own store while a kit is in use: its jobs run when the test says so."""

import threading
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol, TypeVar

from standfast.durable.runtime import current_attempt
from standfast.errors import ResultTimeoutError, StandfastError
from standfast.model.job import Glance
from standfast.model.states import State
from standfast.stores.backend import AsyncJoined, Backend, Joined
from standfast.stores.verb import Verb
from standfast.stores.waiter import JobWait, WaitCondition, Waiter, job_not_found

T = TypeVar("T")


class WakeListener(Protocol):
    """Whoever wants to know that a job may have become due: asked after the commit, and before the answer."""

    def woken(self) -> None:
        """Do what has to be done, blocking."""
        ...

    def awoken(self) -> Awaitable[None]:
        """Do what has to be done, on the running event loop."""
        ...


class StandInBackend(Backend):
    """Another store, with someone who heeds whatever wakes workers. To close it closes nothing: the kit does."""

    def __init__(self, inner: Backend, heed: WakeListener) -> None:
        super().__init__("the store of a kit")
        self._inner = inner
        self.verbs, self.bell = inner.verbs, inner.bell
        self._heed = heed

    def _open(self) -> Backend:
        return self._inner

    def run(self, verb: Verb[T]) -> T:
        """Run the verb, and what is due after it if that is wanted."""
        answer = super().run(verb)
        if verb.wakes:
            self._heed.woken()
        return answer

    async def arun(self, verb: Verb[T]) -> T:
        """Run the verb, and what is due after it if that is wanted."""
        answer = await super().arun(verb)
        if verb.wakes:
            await self._heed.awoken()
        return answer

    def join(self, connection: Any) -> Joined:
        """Return the transaction of the store inside."""
        return self._inner.join(connection)

    def ajoin(self, connection: Any) -> AsyncJoined:
        """Return the transaction of the store inside."""
        return self._inner.ajoin(connection)

    def close(self) -> None:
        """Keep the store: what an app closes, it may open again."""


class StandInWaiter(Waiter):
    """Waits only where that can help: nothing runs jobs but a drain, so without one a wait is over at once."""

    def __init__(self, backend: Backend, is_draining: Callable[[], bool]) -> None:
        super().__init__(backend)
        self._store = backend
        self._is_draining = is_draining
        self._watches: list[JobWait] = []
        self._lock = threading.RLock()

    @property
    def watching(self) -> int:
        """How many watches are not over."""
        return len(self._watches)

    def watch(self, job_id: str, until: WaitCondition) -> JobWait:
        """Begin to watch a job, which is over at once if it has ended, or if nobody would end it."""
        watch = JobWait(job_id, until)
        with self._lock:
            self._watches.append(watch)
            self._look((watch,), patient=self._is_draining() and current_attempt.get() is None)
        return watch

    def forget(self, watch: JobWait) -> None:
        """Watch no more."""
        with self._lock:
            if watch in self._watches:
                self._watches.remove(watch)

    def look(self) -> None:
        """Look at every job that is watched: something may have ended."""
        with self._lock:
            self._look(tuple(self._watches), patient=self._is_draining())

    def close(self) -> None:
        """End every watch."""
        with self._lock:
            self._look(tuple(self._watches), patient=False)

    def _look(self, watches: Iterable[JobWait], *, patient: bool) -> None:
        watches = tuple(watches)
        if not watches:
            return
        seen = self._store.run(self._store.verbs.glance(tuple({watch.job_id for watch in watches})))
        for watch in watches:
            glance = seen.get(watch.job_id)
            if glance is None:
                self._end(watch, job_not_found(watch.job_id))
            elif watch.until(glance):
                self._end(watch, glance)
            elif not patient:
                self._end(watch, _nobody_runs_it(watch.job_id, glance))

    def _end(self, watch: JobWait, seen: Glance | StandfastError) -> None:
        self._watches.remove(watch)
        watch.end(seen)


def _nobody_runs_it(job_id: str, glance: Glance) -> ResultTimeoutError:
    if current_attempt.get() is not None:
        return ResultTimeoutError(
            f"job {job_id} is {glance.state}, and will be while this handler waits for it: a kit runs one job after"
            " another; within kit.inline() it would have run when it was enqueued"
        )
    if glance.state is State.SCHEDULED:
        return ResultTimeoutError(
            f"job {job_id} is scheduled, and the clock stands still while this waits: call kit.advance() and"
            " kit.drain() first, or kit.drain_all()"
        )
    return ResultTimeoutError(
        f"job {job_id} is {glance.state}, and nothing runs it while this waits: call kit.drain() first, or enqueue"
        " it within kit.inline()"
    )
