"""Attempts as a kit has them run: they meet faults, and what their handlers raise is kept for the test."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from functools import wraps
from typing import Any

from standfast.context import Context
from standfast.core.job import Claim, Ending, Progress
from standfast.core.outcome import Outcome
from standfast.durable.here import attempt_here
from standfast.durable.notebook import OwnNotebook
from standfast.hooks import CallNext
from standfast.store.backend import Backend
from standfast.testing.clock import FakeClock
from standfast.testing.faults import Faults, Killed
from standfast.worker.attempt import AnyTask
from standfast.worker.control import Control, StopReason
from standfast.worker.lease import Lease


class WatchedControl(Control):
    """An attempt that stops at fault points, sees a cancellation at once, and keeps what its handler raised.

    `evidence` says what killed it, and `ignored` what its handler came to after its transaction had completed it.
    """

    takes_pauses = False
    """The clock of a test stands still, and nobody would move it on meanwhile."""

    def __init__(
        self,
        claim: Claim,
        lease: Lease,
        report: Callable[[Control, Progress], None],
        open_notebook: Callable[[Control], OwnNotebook],
        *,
        backend: Backend,
        clock: FakeClock,
        faults: Faults,
    ) -> None:
        super().__init__(claim, lease, report, open_notebook)
        self.evidence: str | None = None
        self.ignored: str | None = None
        self.raised: BaseException | None = None
        self._backend = backend
        self._clock = clock
        self._faults = faults

    @property
    def cancelled(self) -> bool:
        """Whether the handler should end soon. There are no beats in a test, so the store is asked here."""
        if self.why is None:
            job = self._backend.run(self._backend.verbs.get(self.claim.job_id))
            if job is not None and job.cancel_requested:
                self.tell(StopReason.CANCEL)
        return super().cancelled

    def nap(self, seconds: float) -> None:
        """Move the clock on by so much, unless the handler should end: nobody else would."""
        self._move_to(self._clock.boot() + seconds)

    async def anap(self, seconds: float) -> None:
        """Move the clock on, after those who go to sleep beside it: they sleep at the same time."""
        wakes_at = self._clock.boot() + seconds
        await asyncio.sleep(0)
        self._move_to(wakes_at)

    def _move_to(self, boot: float) -> None:
        if not self.cancelled:
            self._clock.advance(max(0.0, boot - self._clock.boot()))

    def fault_point(self, name: str) -> None:
        """Meet the fault that waits here, if there is one; a killed attempt meets its end at every point."""
        if self.evidence is not None:
            raise Killed
        try:
            self._faults.reach(name)
        except Killed:
            self.evidence = f"killed by its test at the fault point {name!r}"
            self.tell(StopReason.STOP)  # what the handler comes to now is of no interest to anybody
            raise

    def overruled(self, said: str) -> None:
        """Take note of what is ignored."""
        self.ignored = said

    def failure(self, ending: Ending) -> BaseException:
        """Return what the handler raised or, if it failed without, an error that says how."""
        whose = f"job {self.claim.job_id} ({self.claim.task}), attempt {self.claim.attempt + 1}"
        if self.ignored is None:
            kinds, after, said = Exception | Outcome, "", f"failed: {ending.failure}"
        else:
            kinds, after = Exception, ", after its transaction had completed the job"
            said = f"was completed by its transaction, and what its handler came to then is ignored: {self.ignored}"
        if isinstance(self.raised, kinds):
            self.raised.add_note(f"raised by {whose}{after}")
            return self.raised
        return AssertionError(f"{whose} {said}")


class Recorded(Mapping[str, AnyTask]):
    """The tasks of an app; what their functions raise is kept with the attempt too."""

    def __init__(self, tasks: Mapping[str, AnyTask]) -> None:
        self._tasks = tasks

    def __getitem__(self, name: str) -> AnyTask:
        task = copy(self._tasks[name])
        task.fn = _recorded_coroutine(task.fn) if task.is_async else _recorded(task.fn)
        return task

    def __iter__(self) -> Iterator[str]:
        return iter(self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)


def _recorded(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(**arguments: Any) -> Any:
        try:
            return function(**arguments)
        except BaseException as error:
            _keep(error)
            raise

    return call


def _recorded_coroutine(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    async def call(**arguments: Any) -> Any:
        try:
            return await function(**arguments)
        except BaseException as error:
            _keep(error)
            raise

    return call


async def record_around(_: Context, call_next: CallNext) -> Any:
    """Be the outermost middleware: what the others made of a handler's exception counts."""
    try:
        value = await call_next()
    except BaseException as error:
        _keep(error)
        raise
    _keep(None)
    return value


def _keep(error: BaseException | None) -> None:
    attempt = attempt_here.get()
    if isinstance(attempt, WatchedControl):
        attempt.raised = error
