"""One look for all who wait: every handle of a process hears of its job through one thread.

    handle ──► watch(job, until) ──► a glance at all that is watched ──► the watch is over ──► handle
                                         ▲                 │
                                         └── bell, pause ◄─┘ not yet

So five hundred handles cost the store as much as one. The bell says when to look; it is a hint, so there is a look
every quarter of a second without it too. The thread starts with the first watch, and ends when nothing has been
watched for a moment.
"""

from collections.abc import Iterable
from copy import copy
from weakref import WeakSet

from standfast.attendant import Attendant
from standfast.core.job import Glance
from standfast.errors import StandfastError, StoreError, StoreUnavailableError
from standfast.store.backend import Backend, Listener
from standfast.store.verb import Tone
from standfast.waiter.watch import Watch, job_not_found


class Lookout:
    """The watches of one process, shared by those who wait and the thread that looks."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._attendant = Attendant("standfast-waiter", self._live, self._failed)
        self._lock = self._attendant.lock
        self.attend = self._attendant.attend
        """Lets the thread be woken like this from now on."""
        self._watches = WeakSet[Watch]()
        """Weak references: a caller that is interrupted while it waits leaves no watch behind."""
        self._unseen = WeakSet[Watch]()
        self.closed = False

    @property
    def watching(self) -> int:
        """How many watches are not over."""
        return len(self._watches)

    def add(self, watch: Watch) -> None:
        """Begin a watch, and wake or start the thread."""
        with self._lock:
            if self.closed:
                raise _closed()
            self._watches.add(watch)
            self._unseen.add(watch)
            self._attendant.call()

    def remove(self, watch: Watch) -> None:
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
        from standfast.waiter.rounds import go_rounds  # noqa: PLC0415 - only who waits loads what the thread needs

        go_rounds(self)

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

    def _look_at(self, watches: tuple[Watch, ...]) -> None:
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

    def _end(self, watches: Iterable[Watch], seen: Glance | StandfastError) -> None:
        with self._lock:
            for watch in watches:
                if watch in self._watches:
                    # Each caller raises, and may note on, an error of its own.
                    watch.end(copy(seen) if isinstance(seen, StandfastError) else seen)
                    self.remove(watch)


def _closed() -> StoreError:
    return StoreError("the app was closed while this waited for a job: wait before it closes, or open it again")
