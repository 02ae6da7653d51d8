"""One look for all who wait: every handle of a process hears of its job through one thread.

    handle ──► watch(job, until) ──► a glance at all that is watched ──► the watch is over ──► handle
                                         ▲                 │
                                         └── bell, pause ◄─┘ not yet

So five hundred handles cost the store as much as one. The bell says when to look; it is a hint, so there is a look
every quarter of a second without it too. The thread starts with the first watch, and ends when nothing has been
watched for a moment.
"""

import asyncio
import os
from collections.abc import Callable, Iterable
from copy import copy
from weakref import WeakSet

from standfast.errors import JobNotFoundError, StandfastError, StoreError, StoreUnavailableError
from standfast.model.concurrency import Latch, OnDemandThread, Wakeup
from standfast.model.job import Glance
from standfast.stores.backend import Backend, Listener
from standfast.stores.verb import Tone

# The rounds of the lookout's thread: look at what is watched, then wait for a reason to look again.

FIRST_PAUSE = 0.01
"""Seconds until the first look that no ring has asked for; each next pause is longer, to the longest."""
LONGEST_PAUSE = 0.25
GROWTH = 1.5

SPACING = 0.005
"""Seconds between looks in a storm of rings; but so many may follow each other at once."""
AT_ONCE = 4

_UNRUNG = 60.0
"""Seconds after which an ear that heard nothing listens again."""

LINGER = 1.0
"""Seconds that the thread stays when nothing is watched any more: often another watch follows."""


def run_poll_loop(lookout: "JobPoller") -> None:
    """Look for all who wait, in this thread, until nothing has been watched for a moment."""
    asyncio.run(_PollLoop(lookout).go())


class _PollLoop:
    """What the thread does: look, and wait for a reason to look again."""

    def __init__(self, lookout: "JobPoller") -> None:
        self._lookout = lookout
        self._wakeup = Wakeup()
        self._rung = False
        self._pause = FIRST_PAUSE
        self._paid_until = 0.0

    async def go(self) -> None:
        loop = asyncio.get_running_loop()
        self._lookout.attend(lambda: loop.call_soon_threadsafe(self._wakeup.call))
        bell: asyncio.Task[None] | None = None
        at_all = True
        while True:
            self._look(at_all=at_all)
            if self._lookout.watching:
                bell = bell or asyncio.create_task(self._heed_bell())
                called = await self._wakeup.rest(self._pause)
                self._pause = self._pause if called else min(self._pause * GROWTH, LONGEST_PAUSE)
            elif await self._stay():
                called, self._pause = True, FIRST_PAUSE
            else:
                return
            await self._breathe()
            at_all, self._rung = self._rung or not called, False

    def _look(self, *, at_all: bool) -> None:
        began = self._now()
        self._lookout.look(at_all=at_all)
        cost = max(SPACING, 2 * (self._now() - began))  # a look at many takes long: rest as long as it took
        self._paid_until = max(self._paid_until, began) + cost

    async def _breathe(self) -> None:
        """Let a storm of rings be one look, and a single ring a look at once."""
        await asyncio.sleep(max(self._paid_until - AT_ONCE * SPACING - self._now(), 0))

    async def _stay(self) -> bool:
        """Stay a while without a watch; return whether there is one again."""
        leave_at = self._now() + LINGER
        while not self._lookout.watching:
            left = leave_at - self._now()
            if (left <= 0 or self._lookout.closed) and self._lookout.leave():
                return False
            await self._wakeup.rest(left)
        return True

    async def _heed_bell(self) -> None:
        listener = await self._listener()
        try:
            while True:
                # Also at first: what ended before there was anyone to hear it rang for nobody.
                self._rung = True
                self._wakeup.call()
                while not await listener.wait(_UNRUNG):
                    pass
        finally:
            listener.close()

    async def _listener(self) -> Listener:
        """Open the bell. It is a hint only: while it cannot be opened, there are the looks after each pause."""
        while True:
            try:
                return self._lookout.listen()
            except StoreError:
                await asyncio.sleep(LONGEST_PAUSE)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


# One who waits for one job.

WaitCondition = Callable[[Glance], bool]
"""Says whether what is seen of a job is what its watcher waits for."""


class JobWait:
    """One who waits for one job. It is over once `until` holds, or once an error says that it never will."""

    def __init__(self, job_id: str, until: WaitCondition) -> None:
        self.job_id = job_id
        self.until = until
        self._seen: Glance | StandfastError | None = None
        self._over = Latch()

    def ended(self, within: float) -> bool:
        """Wait for its end, blocking, for so many seconds at most; return whether it came."""
        return self._over.wait(within)

    async def aended(self, within: float) -> bool:
        """Wait as `ended` does, without blocking the event loop."""
        return await self._over.await_(within)

    def outcome(self) -> Glance:
        """Return what was seen, or raise why nothing can be; once it is over."""
        if isinstance(self._seen, StandfastError):
            raise self._seen
        if self._seen is None:
            raise RuntimeError("the watch is not over: wait for it first")
        return self._seen

    def end(self, seen: Glance | StandfastError) -> None:
        """Let it be over."""
        self._seen = seen
        self._over.set()


def job_not_found(job_id: str) -> JobNotFoundError:
    """Return the error for a job that is not there."""
    return JobNotFoundError(
        f"there is no job {job_id}; it was deleted, or is in another store, or the transaction that enqueued it has"
        " not committed"
    )


class JobPoller:
    """The watches of one process, shared by those who wait and the thread that looks."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._attendant = OnDemandThread("standfast-waiter", self._live, self._failed)
        self._lock = self._attendant.lock
        self.attend = self._attendant.attend
        """Lets the thread be woken like this from now on."""
        self._watches = WeakSet[JobWait]()
        """Weak references: a caller that is interrupted while it waits leaves no watch behind."""
        self._unseen = WeakSet[JobWait]()
        self.closed = False

    @property
    def watching(self) -> int:
        """How many watches are not over."""
        return len(self._watches)

    def add(self, watch: JobWait) -> None:
        """Begin a watch, and wake or start the thread."""
        with self._lock:
            if self.closed:
                raise _closed()
            self._watches.add(watch)
            self._unseen.add(watch)
            self._attendant.call()

    def remove(self, watch: JobWait) -> None:
        """Watch no more."""
        with self._lock:
            self._watches.discard(watch)
            self._unseen.discard(watch)

    def close(self) -> None:
        """End every watch with an error, and the thread."""
        with self._lock:
            self.closed = True  # the thread ends the watches, as no signal handler runs in it
        self._attendant.join()

    # -- in the thread -----------------------------------------------------------------------------------------

    def _live(self) -> None:

        run_poll_loop(self)

    def _failed(self, error: Exception) -> None:
        """Let all who wait hear of it: they would hear of nothing else."""
        with self._lock:
            self._attendant.leave()
            self._end(tuple(self._watches), StoreError(f"the wait for jobs failed: {error!r}"))

    def leave(self) -> bool:
        """Let the thread go if nothing is watched, and return whether it may: the next watch starts another."""
        with self._lock:
            if not self._watches:
                self._attendant.leave()
            return not self._watches

    def listen(self) -> Listener:
        """Open an ear for the end of jobs."""
        return self._backend.bell.listen(Tone.RESULT)

    def look(self, *, at_all: bool) -> None:
        """Look at every job that is watched, or only at those not looked at yet, and end watches."""
        with self._lock:
            closed = self.closed
            watches = tuple(self._watches if at_all or closed else self._unseen)
            self._unseen.clear()
        if closed:
            self._end(watches, _closed())
        elif watches:
            self._look_at(watches)

    def _look_at(self, watches: tuple[JobWait, ...]) -> None:
        try:
            seen = self._backend.run(self._backend.verbs.glance(tuple({watch.job_id for watch in watches})))
        except StoreUnavailableError:
            return  # it may be back before the time of those who wait is up
        except StandfastError as error:
            self._end(watches, error)
            return
        for watch in watches:
            glance = seen.get(watch.job_id)
            if glance is None:
                self._end((watch,), job_not_found(watch.job_id))
            elif watch.until(glance):
                self._end((watch,), glance)

    def _end(self, watches: Iterable[JobWait], seen: Glance | StandfastError) -> None:
        with self._lock:
            for watch in watches:
                if watch in self._watches:
                    # Each caller raises, and may note on, an error of its own.
                    watch.end(copy(seen) if isinstance(seen, StandfastError) else seen)
                    self.remove(watch)


def _closed() -> StoreError:
    return StoreError("the app was closed while this waited for a job: wait before it closes, or open it again")


# Through this every handle of a process waits.


class Waiter:
    """Watches jobs of one open store, in every process that has it: each has a lookout of its own."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._lookouts: dict[int, JobPoller] = {}

    @property
    def watching(self) -> int:
        """How many watches of this process are not over."""
        return self._lookout().watching

    def watch(self, job_id: str, until: WaitCondition) -> JobWait:
        """Begin to watch a job. Whoever gives up before it is over must `forget` it."""
        watch = JobWait(job_id, until)
        self._lookout().add(watch)
        return watch

    def forget(self, watch: JobWait) -> None:
        """Watch no more."""
        self._lookout().remove(watch)

    def close(self) -> None:
        """End every watch with an error, and the thread; afterwards none can begin."""
        self._lookout().close()

    def _lookout(self) -> JobPoller:
        # No lock, it might have been held during a fork: of two threads the first `setdefault` wins. What a parent
        # had is kept and left alone: to tidy up its event loop here would reach into the parent's own.
        pid = os.getpid()
        return self._lookouts.get(pid) or self._lookouts.setdefault(pid, JobPoller(self._backend))


# Waiting for jobs, of which one thread hears for all handles of a process.

__all__ = ["JobWait", "WaitCondition", "Waiter", "job_not_found"]
