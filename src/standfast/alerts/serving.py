"""Which queues are served, by however many workers: what is asked once for each queue is found at once. Pure."""

from collections.abc import Iterable

from standfast.store.protocol import Worker


class Serving:
    """The queues that workers serve; `everything`: some of them serve whatever queue there is."""

    def __init__(self, workers: Iterable[Worker]) -> None:
        served = [worker.info.queues for worker in workers]
        self.everything = None in served
        self._named = frozenset(queue for queues in served for queue in queues or ())

    def __contains__(self, queue: str) -> bool:
        return self.everything or queue in self._named
