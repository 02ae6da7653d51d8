"""Through this every handle of a process waits."""

import os

from standfast.store.backend import Backend
from standfast.waiter.lookout import Lookout
from standfast.waiter.watch import Until, Watch


class Waiter:
    """Watches jobs of one open store, in every process that has it: each has a lookout of its own."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._lookouts: dict[int, Lookout] = {}

    @property
    def watching(self) -> int:
        """How many watches of this process are not over."""
        return self._lookout().watching

    def watch(self, job_id: str, until: Until) -> Watch:
        """Begin to watch a job. Whoever gives up before it is over must `forget` it."""
        watch = Watch(job_id, until)
        self._lookout().add(watch)
        return watch

    def forget(self, watch: Watch) -> None:
        """Watch no more."""
        self._lookout().remove(watch)

    def close(self) -> None:
        """End every watch with an error, and the thread; afterwards none can begin."""
        self._lookout().close()

    def _lookout(self) -> Lookout:
        # No lock, it might have been held during a fork: of two threads the first `setdefault` wins. What a parent
        # had is kept and left alone: to tidy up its event loop here would reach into the parent's own.
        pid = os.getpid()
        return self._lookouts.get(pid) or self._lookouts.setdefault(pid, Lookout(self._backend))
