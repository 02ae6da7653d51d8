"""What a handler can use through its attempt: transactions of its own, the store's time, and jitter."""

from datetime import datetime
from random import Random
from typing import Any

from standfast.clock import Clock
from standfast.store.backend import Backend
from standfast.worker.control import Control
from standfast.worker.judge import Judge
from standfast.worker.steptransaction import StepTransaction
from standfast.worker.transaction import JobTransaction


class AttemptMeans:
    """The means of one attempt."""

    __slots__ = ("_backend", "_clock", "_control", "_judge", "_worker")

    def __init__(self, backend: Backend, worker: str, clock: Clock, control: Control, judge: Judge) -> None:
        self._backend = backend
        self._worker = worker
        self._clock = clock
        self._control = control
        self._judge = judge

    @property
    def random(self) -> Random:
        """The source of jitter."""
        return self._judge.random

    def now(self) -> datetime:
        """Return the store's time."""
        return self._clock.now()

    def completing(self, connection: Any) -> JobTransaction:
        """Return a transaction that completes the job."""
        return JobTransaction(self._backend, self._worker, self._control, self._judge, connection)

    def saving(self, connection: Any) -> StepTransaction:
        """Return a transaction that writes the memo of a step."""
        return StepTransaction(self._backend, self._worker, self._control, connection)
