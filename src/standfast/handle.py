"""What an enqueue returns: a job's id and the way to ask about it. It holds no copy of the job and no store."""

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, cast

import msgspec

from standfast.durable.files import SavedFile
from standfast.durable.lock import House
from standfast.durable.runtime import current_attempt
from standfast.errors import (
    ArgumentsError,
    ConfigurationError,
    JobCancelledError,
    JobDeadError,
    JobStateError,
    RemoteTraceback,
    ResultEncodingError,
    ResultExpiredError,
    ResultTimeoutError,
    StoreError,
    StoreUnavailableError,
)
from standfast.model.backoff import TRANSIENT_ERRORS, RetryDeadline
from standfast.model.clock import Clock
from standfast.model.codec import decode_result, encode_result
from standfast.model.concurrency import run_without_loop
from standfast.model.display import counted
from standfast.model.ids import new_job_id
from standfast.model.job import Attempt, Cancellation, Glance, Job, Progress
from standfast.model.memos import MEMO_LIMIT, signal_name, signal_problems
from standfast.model.phrases import Phrase
from standfast.model.states import FINAL, State
from standfast.model.suggestions import closest_name, with_migration_hints
from standfast.model.tracing import Tracing
from standfast.model.validation import is_number
from standfast.stores.contract import Store, cancel_job
from standfast.stores.verb import Verb
from standfast.stores.waiter import JobWait, WaitCondition, Waiter, job_not_found

T = TypeVar("T")

log = logging.getLogger(__name__)

_A_SLIP = 0.75
"""From which likeness on a signal may have been meant for the one that is waited for."""


def encode_signal(name: str, data: Any) -> bytes:
    """Return what is sent with a signal, as JSON. Raises ArgumentsError that says what cannot be sent."""
    for problem in signal_problems(name):
        raise ArgumentsError(problem)
    try:
        body = encode_result(data)
    except ResultEncodingError as error:
        raise ArgumentsError(f"signal {name!r} cannot be sent: {error.__cause__ or error}") from error
    if len(body) > MEMO_LIMIT:
        raise ArgumentsError(
            f"the data of signal {name!r} takes {len(body):,} bytes and at most {MEMO_LIMIT:,} are stored;"
            " keep it elsewhere and send a reference to it"
        )
    return body


async def send(way: "_Way", job_id: str, name: str, data: Any) -> None:
    """Send a signal once: a try whose answer was lost may have sent it, and the next has the same token."""
    verbs, body, token = way.caller.verbs, encode_signal(name, data), new_job_id()
    patience = RetryDeadline(way.caller.retry_for)
    while True:
        try:
            sent = await way.run(verbs.signal(job_id, name, token, body))
        except TRANSIENT_ERRORS as error:
            pause = patience.pause_after(error)
        else:
            break
        await way.pause(pause)
    if not sent:
        raise too_late(job_id, name)
    with suppress(StoreError):  # it is sent, whatever becomes of the hint
        _tell_slip(name, await way.run(verbs.get(job_id)))


def _tell_slip(name: str, job: Job | None) -> None:
    """Say so in the log if the job waits for a signal of nearly this name: it would go on waiting."""
    waited = None if job is None else signal_name(job.reason)
    if job is not None and waited is not None and waited != name and closest_name(name, [waited], _A_SLIP):
        log.warning("job %s was sent signal %r, and waits for signal %r: was that meant?", job.id, name, waited)


def too_late(job_id: str, name: str) -> JobStateError:
    """Return the error of a signal to a job that is over."""
    return JobStateError(Phrase("refusal.over", job=job_id, signal=repr(name)))


R = TypeVar("R")

LONGEST_SLEEP = 1.0
"""Seconds until a wait looks at the clock again: it may be a test's, or have gone on while the machine slept."""


class Caller(House, Protocol):
    """Whoever can run verbs on the store of an app: the app itself."""

    tracing: Tracing | None
    """What makes spans, if the app is traced."""

    @property
    def verbs(self) -> Store:
        """The verbs of the store."""
        ...

    @property
    def waiter(self) -> Waiter:
        """Where to wait for jobs."""
        ...

    def call(self, verb: Verb[T], tx: Any = None) -> T:
        """Run a verb, blocking; inside the transaction of the connection `tx`, if one is given."""
        ...

    async def acall(self, verb: Verb[T], tx: Any = None) -> T:
        """Run a verb without blocking the event loop."""
        ...

    def files(self, job: str, /) -> Mapping[str, SavedFile]:
        """Return the files that a job has saved, by name."""
        ...

    async def afiles(self, job: str, /) -> Mapping[str, SavedFile]:
        """Return them without blocking the event loop."""
        ...


_ELSEWHERE = {
    "get": "write handle.result(timeout=...)",
    "wait": "write handle.result(timeout=...)",
    "ready": "write handle.status()",
    "state": "write handle.status()",
    "successful": 'write handle.status() == "completed"',
    "failed": 'write handle.status() == "dead"',
    "revoke": "write handle.cancel()",
}
"""What people write who come from other systems, and how it is written here."""


@dataclass(frozen=True, slots=True)
class _Blocking:
    """Never lets go of the thread, so that a coroutine that asks like this is done in one go."""

    caller: Caller

    async def run(self, verb: Verb[T]) -> T:
        return self.caller.call(verb)

    async def ended(self, watch: JobWait, within: float) -> bool:
        return watch.ended(within)

    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251 - no event loop is waiting


@dataclass(frozen=True, slots=True)
class _Awaiting:
    """Lets the event loop go on meanwhile."""

    caller: Caller

    async def run(self, verb: Verb[T]) -> T:
        return await self.caller.acall(verb)

    async def ended(self, watch: JobWait, within: float) -> bool:
        return await watch.aended(within)

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


_Way = _Blocking | _Awaiting
"""How a handle asks: what it asks is written once, as async code."""


@with_migration_hints(_ELSEWHERE)
class JobHandle(msgspec.Struct, Generic[R], frozen=True, eq=False, weakref=True):
    """A job that was enqueued. `R` is what its task returns.

    `task` is empty where only the id is known. `created` is False where the key was taken, and this is the job
    that has it; and where a job of the given `job_id` was there already.
    """

    id: str
    task: str
    caller: Caller
    result_type: Any = Any
    created: bool = True

    def __eq__(self, other: object) -> bool:
        return self.id == other.id if isinstance(other, JobHandle) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"JobHandle(id={self.id!r}, task={self.task!r}, created={self.created})"

    def job(self) -> Job:
        """Return the job as it is now. Raises JobNotFoundError."""
        return run_without_loop(self._job(_Blocking(self.caller)))

    async def ajob(self) -> Job:
        """Return the job as it is now. Raises JobNotFoundError."""
        return await self._job(_Awaiting(self.caller))

    def status(self) -> State:
        """Return the state that the job is in now. Raises JobNotFoundError."""
        return self.job().state

    async def astatus(self) -> State:
        """Return the state that the job is in now. Raises JobNotFoundError."""
        return (await self.ajob()).state

    def cancel(self) -> Cancellation:
        """Cancel the job: at once if it waits, by asking its handler if it is claimed. Raises JobNotFoundError."""
        return self.caller.call(cancel_job(self.caller.verbs, self.id))

    async def acancel(self) -> Cancellation:
        """Cancel the job: at once if it waits, by asking its handler if it is claimed. Raises JobNotFoundError."""
        return await self.caller.acall(cancel_job(self.caller.verbs, self.id))

    def files(self) -> Mapping[str, SavedFile]:
        """Return the files that the job has saved, by name. Raises JobNotFoundError."""
        return self.caller.files(self.id)

    async def afiles(self) -> Mapping[str, SavedFile]:
        """Return the files that the job has saved, by name. Raises JobNotFoundError."""
        return await self.caller.afiles(self.id)

    def signal(self, name: str, data: Any = None) -> None:
        """Send the job a signal: `ctx.wait_for(name)` returns `data` in its handler, and a job that waits goes on.

        A signal is kept until the handler asks for it, and counts once however often it is tried. Raises
        ArgumentsError, JobNotFoundError, and JobStateError where the job is over or has too many signals.
        """
        run_without_loop(send(_Blocking(self.caller), self.id, name, data))

    async def asignal(self, name: str, data: Any = None) -> None:
        """Send the job a signal as `signal` does, without blocking the event loop."""
        await send(_Awaiting(self.caller), self.id, name, data)

    def result(self, timeout: float | None = None) -> R:
        """Wait for the job and return what its handler returned; None waits for ever.

        Raises ResultTimeoutError, JobDeadError (its cause is the traceback in the worker), JobCancelledError,
        and ResultExpiredError. A store that is away is waited for.
        """
        return run_without_loop(self._result(_Blocking(self.caller), self._deadline(timeout)))

    async def aresult(self, timeout: float | None = None) -> R:
        """Wait for the job as `result` does, without blocking the event loop."""
        return await self._result(_Awaiting(self.caller), self._deadline(timeout))

    def progress(self, timeout: float | None = None) -> Iterator[Progress]:
        """Yield what the handler says about its progress, the latest each time, until the job has ended.

        Raises ResultTimeoutError after `timeout` seconds.
        """
        way, deadline, last = _Blocking(self.caller), self._deadline(timeout), None
        while (last := run_without_loop(self._next_progress(way, last, deadline))) is not None:
            yield last

    async def aprogress(self, timeout: float | None = None) -> AsyncIterator[Progress]:
        """Yield as `progress` does, without blocking the event loop."""
        way, deadline, last = _Awaiting(self.caller), self._deadline(timeout), None
        while (last := await self._next_progress(way, last, deadline)) is not None:
            yield last

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yield its id and its state now, as pairs: what `dict(handle)` has, and an endpoint of FastAPI answers."""
        yield "id", self.id
        yield "state", str(self.status())

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> dict[str, Any]:
        """Let pydantic take a handle as it is, and write it as its id and its state now."""
        text = {"type": "typed-dict-field", "schema": {"type": "str"}}
        written = {"type": "typed-dict", "fields": {"id": text, "state": text}}
        write = {"type": "function-plain", "function": dict, "return_schema": written}
        return {"type": "is-instance", "cls": cls, "serialization": write}

    async def _job(self, way: _Way) -> Job:
        job = await way.run(self.caller.verbs.get(self.id))
        if job is None:
            raise job_not_found(self.id)
        return job

    async def _result(self, way: _Way, deadline: "_Deadline") -> R:
        while True:
            await self._seen(way, _is_final, deadline)
            try:
                job = await self._job(way)
                history = await way.run(self.caller.verbs.history(self.id)) if job.state is State.DEAD else ()
            except StoreUnavailableError:
                continue  # what became of the job can be asked again
            if job.state in FINAL:  # or else it was requeued meanwhile
                return self._read(job, history)

    async def _next_progress(self, way: _Way, last: Progress | None, deadline: "_Deadline") -> Progress | None:
        """Return the next progress, or None where the job ended without."""
        known = (None, last)
        glance = await self._seen(way, lambda seen: _is_final(seen) or seen.progress not in known, deadline)
        return None if glance.progress in known else glance.progress

    async def _seen(self, way: _Way, until: WaitCondition, deadline: "_Deadline") -> Glance:
        """Return what is seen of the job once it is what is waited for. Raises ResultTimeoutError."""
        if deadline.left > 0:
            waiter, noted = self.caller.waiter, False
            attempt = current_attempt.get()
            watch = waiter.watch(self.id, until)
            try:
                while (left := deadline.left) > 0:
                    if await way.ended(watch, min(left, LONGEST_SLEEP)):
                        return watch.outcome()
                    if attempt is not None and not noted:  # its own worker may have to run that job
                        noted = True
                        attempt.wait_begins(self.id)
            finally:
                waiter.forget(watch)
                if noted:
                    attempt.wait_ends(self.id)
        return await self._last_look(way, until, deadline)

    async def _last_look(self, way: _Way, until: WaitCondition, deadline: "_Deadline") -> Glance:
        name = _name(self.id, self.task)
        try:
            glance = (await way.run(self.caller.verbs.glance((self.id,)))).get(self.id)
        except StoreUnavailableError as error:
            raise ResultTimeoutError(f"there is no word of {name} after {deadline}: {error}") from error
        if glance is None:
            raise job_not_found(self.id)
        if not until(glance):
            raise ResultTimeoutError(
                f"{name} is still {glance.state} after {deadline}; it goes on, ask again later"
            )
        return glance

    def _read(self, job: Job, history: Sequence[Attempt]) -> R:
        name = _name(job.id, job.task)
        if job.state is State.DEAD:
            raise _dead(name, job, history)
        if job.state is State.CANCELLED:
            raise JobCancelledError(f"{name} was cancelled: {job.reason}", reason=job.reason)
        if job.result is None and job.result_until is not None:
            raise ResultExpiredError(
                f"{name} completed, but its result was kept only until {job.result_until:%Y-%m-%d %H:%M:%S %Z}:"
                " the task's option keep_result says how long that is"
            )
        return cast("R", decode_result(job.result or b"null", self.result_type))

    def _deadline(self, timeout: float | None) -> "_Deadline":
        return _Deadline(self.caller.clock, timeout)


class _Deadline:
    """When a wait is over, by the app's clock."""

    def __init__(self, clock: Clock, timeout: float | None) -> None:
        if not (timeout is None or is_number(timeout)):
            raise ConfigurationError(
                f"timeout must be a number of seconds, or None to wait for ever, not {timeout!r}"
            )
        self._clock = clock
        self._timeout = math.inf if timeout is None else timeout
        self._began_at = clock.boot()

    @property
    def left(self) -> float:
        """How many seconds are left."""
        return self._timeout - (self._clock.boot() - self._began_at)

    def __str__(self) -> str:
        return f"{self._timeout:g} s"


def _is_final(seen: Glance) -> bool:
    return seen.state in FINAL


def _name(job_id: str, task: str) -> str:
    return f"job {job_id} ({task})" if task else f"job {job_id}"


def _dead(name: str, job: Job, history: Sequence[Attempt]) -> JobDeadError:
    killed_by = next((attempt for attempt in reversed(history) if attempt.error), None)
    trace = (killed_by and killed_by.traceback) or ""
    kind, _, message = (job.error or "").partition(": ")
    if " " in kind:  # no exception of the handler's, but what its supervisor saw
        kind, message = "", job.error or ""
    error = JobDeadError(
        f"{name} is dead after {counted(job.attempt, 'attempt')}: {job.error}",
        failure_type=kind or None,
        failure_message=message,
        remote_traceback=trace,
    )
    error.__cause__ = RemoteTraceback(trace) if trace else None
    return error
