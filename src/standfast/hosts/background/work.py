"""One piece of background work: its call, its handle, and how it runs."""

import asyncio
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from datetime import datetime
from enum import StrEnum
from functools import partial
from types import NoneType
from typing import Any, Generic, TypeVar, get_type_hints

import msgspec

from standfast.context import Life
from standfast.errors import (
    ArgumentsError,
    BackgroundCancelledError,
    BackgroundError,
    ConfigurationError,
    ResultError,
    ResultTimeoutError,
)
from standfast.handle import JobHandle
from standfast.model.codec import Injected, members_of
from standfast.model.concurrency import Latch, refuse_in_event_loop
from standfast.model.ids import new_job_id
from standfast.model.outcomes import Interrupted
from standfast.model.secrets import NO_SECRETS, Scrub, holds_secret
from standfast.model.validation import is_number
from standfast.task import Task

AnyTask = Task[..., Any]


class Call(msgspec.Struct, frozen=True):
    """A function with its arguments. `scrub` takes those out of texts that nobody is to see."""

    name: str
    is_async: bool
    run: Callable[[Life], Any]
    scrub: Scrub


def read_call(given: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], name: str | None) -> Call:
    """Return what is to be called. Raises ArgumentsError for what cannot be."""
    fn = given.fn if isinstance(given, Task) else given
    _check_callable(given)
    named = name or (given.name if isinstance(given, Task) else _name_of(fn))
    code = _code_of(fn)
    if inspect.isgeneratorfunction(code) or inspect.isasyncgenfunction(code):
        raise ArgumentsError(f"{named} yields, and nobody would take what it yields; let it return")
    hints = _hints_of(code)
    parameter = _life_parameter(named, hints)
    try:
        signature = inspect.signature(fn)
    except (ValueError, TypeError):  # written in C, and says nothing of its arguments
        return Call(named, is_async=False, run=lambda _: fn(*args, **kwargs), scrub=NO_SECRETS)
    bound = _bind(named, signature, parameter, args, kwargs)
    secrets = [
        bound.arguments.get(each, declared.default)
        for each, declared in signature.parameters.items()
        if each in hints and _is_secret(hints[each])
    ]

    def run(life: Life) -> Any:
        if parameter is not None:
            bound.arguments[parameter] = life
            bound.apply_defaults()
        return fn(*bound.args, **bound.kwargs)

    is_async = inspect.iscoroutinefunction(code)
    return Call(named, is_async, run, Scrub(secrets) if secrets else NO_SECRETS)


def _check_callable(given: Any) -> None:
    if inspect.iscoroutine(given):
        given.close()  # or else Python would complain that nobody has awaited it
        raise ArgumentsError(
            f"app.background takes a function and its arguments, and {given.__qualname__} was called already:"
            f" write app.background({given.__name__}, …)"
        )
    if inspect.isawaitable(given):
        raise ArgumentsError("app.background takes a function and its arguments, not what awaits one")
    if not callable(given):
        raise ArgumentsError(f"app.background takes a function and its arguments, not {given!r:.80}")


def _code_of(fn: Any) -> Any:
    """Return the function that has the code and the annotations of a callable."""
    while isinstance(fn, partial):
        fn = fn.func
    if inspect.isclass(fn):
        return fn.__init__
    return fn if inspect.isroutine(fn) else type(fn).__call__


def _name_of(fn: Any) -> str:
    while isinstance(fn, partial):
        fn = fn.func
    return getattr(fn, "__qualname__", None) or type(fn).__qualname__


def _hints_of(code: Any) -> Mapping[str, Any]:
    try:
        return get_type_hints(code, include_extras=True)
    except Exception:  # noqa: BLE001 - annotations may be anything, and most functions need none of ours
        return {}


def _life_parameter(name: str, hints: Mapping[str, Any]) -> str | None:
    """Return the parameter that asks for the life of the work."""
    found = None
    for parameter, annotation in hints.items():
        kinds = [each for each in members_of(annotation) if each is not NoneType]
        if len(kinds) != 1 or not (isinstance(kinds[0], type) and issubclass(kinds[0], Injected)):
            continue
        if kinds[0] is not Life:
            raise ArgumentsError(
                f"{name} takes a {kinds[0].__name__}, which only a job has: annotate {parameter!r} with Life, which"
                " jobs and work in the background have, or enqueue it"
            )
        if found is not None:
            raise ArgumentsError(f"{name} has several Life parameters; keep one")
        found = parameter
    return found


def _is_secret(annotation: Any) -> bool:
    try:
        return holds_secret(annotation)
    except Exception:  # noqa: BLE001 - what cannot be read is hidden
        return True


def _bind(
    name: str, signature: inspect.Signature, parameter: str | None, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> inspect.BoundArguments:
    """Return the arguments by name, without the life; it can be put among them."""
    taken = [each for each in signature.parameters.values() if each.name != parameter]
    try:
        bound = signature.replace(parameters=taken).bind(*args, **kwargs)
    except TypeError as error:
        raise ArgumentsError(f"{name} cannot be called like this: {error}; it takes {signature}") from error
    return inspect.BoundArguments(signature, bound.arguments)


# waiting ─► running ─► completed | failed | cancelled          enqueued: it became a durable job instead
# └──────────────────────────────► cancelled

R = TypeVar("R")


class BackgroundState(StrEnum):
    """Where a piece of work is."""

    WAITING = "waiting"
    """As much runs as may, and it has not begun."""
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    """It raised an exception, which is an incident."""
    CANCELLED = "cancelled"
    """It was told to end and did, or it never began."""
    ENQUEUED = "enqueued"
    """There was no room, and it became a job: `job` is its handle."""


class Background(ABC, Generic[R]):
    """A piece of work in the background. `R` is what its function returns.

    `name` is its function's unless it was given one. `started_at` is None where it has not begun here.
    """

    id: str
    name: str
    started_at: datetime | None = None

    def __repr__(self) -> str:
        return f"<Background {self.name} {self.state} {self.id}>"

    @property
    @abstractmethod
    def state(self) -> BackgroundState:
        """Where it is now."""

    @property
    def job(self) -> JobHandle[R] | None:
        """The job that it became where there was no room for it; else None."""
        return None

    @abstractmethod
    def cancel(self) -> None:
        """Tell it to end: a coroutine is cancelled, a function in a thread is told; one that waits never begins."""

    @abstractmethod
    async def acancel(self) -> None:
        """Tell it to end, without blocking the event loop."""

    @abstractmethod
    def result(self, timeout: float | None = None) -> R:
        """Wait for it and return what its function returned, or raise what that raised; None waits for ever.

        Raises ResultTimeoutError after `timeout` seconds, and BackgroundCancelledError where it was cancelled.
        """

    @abstractmethod
    async def aresult(self, timeout: float | None = None) -> R:
        """Wait for it as `result` does, without blocking the event loop."""

    @abstractmethod
    def ended(self, timeout: float | None = None) -> bool:
        """Wait for its end for so many seconds at most; return whether it came."""

    @abstractmethod
    async def aended(self, timeout: float | None = None) -> bool:
        """Wait for its end as `ended` does, without blocking the event loop."""


class Enqueued(Background[R]):
    """Work that found no room here, and became a durable job."""

    def __init__(self, job: JobHandle[R]) -> None:
        self.id = job.id
        self.name = job.task
        self._job = job

    @property
    def state(self) -> BackgroundState:
        """It is a job now, which has states of its own."""
        return BackgroundState.ENQUEUED

    @property
    def job(self) -> JobHandle[R]:
        """The job that it became."""
        return self._job

    def cancel(self) -> None:
        """Cancel the job."""
        self._job.cancel()

    async def acancel(self) -> None:
        """Cancel the job."""
        await self._job.acancel()

    def result(self, timeout: float | None = None) -> R:
        """Wait for the job; raises as `JobHandle.result` does."""
        return self._job.result(timeout)

    async def aresult(self, timeout: float | None = None) -> R:
        """Wait for the job; raises as `JobHandle.result` does."""
        return await self._job.aresult(timeout)

    def ended(self, timeout: float | None = None) -> bool:
        """Wait for the end of the job."""
        try:
            self._job.result(timeout)
        except ResultError as error:
            return not isinstance(error, ResultTimeoutError)
        return True

    async def aended(self, timeout: float | None = None) -> bool:
        """Wait for the end of the job."""
        try:
            await self._job.aresult(timeout)
        except ResultError as error:
            return not isinstance(error, ResultTimeoutError)
        return True


work_here: ContextVar["Work[Any] | None"] = ContextVar("standfast_background", default=None)
"""The work in which the code that asks runs."""


class WorkLife(Life):
    """How long a piece of work may go on: until it is cancelled or its app is closed."""

    def __init__(self) -> None:
        self._end = Latch()

    @property
    def cancelled(self) -> bool:
        """True once the work should end: it was cancelled, or its app is being closed."""
        return self._end.is_set

    def raise_if_cancelled(self) -> None:
        """End the work here if it should end."""
        if self._end.is_set:
            raise Interrupted

    def end(self) -> None:
        """Let the work know that it should end."""
        self._end.set()

    def _nap(self, seconds: float) -> None:
        self._end.wait(seconds)

    async def _anap(self, seconds: float) -> None:
        await self._end.await_(seconds)


class Outcome(msgspec.Struct, frozen=True):
    """What became of a piece of work."""

    state: BackgroundState
    value: Any = None
    error: BaseException | None = None


class Work(Background[R]):
    """A piece of work. `loop` is where its coroutine runs; None of a plain function, which runs in a thread.

    `settle` is told what became of it; what it is told first counts.
    """

    def __init__(
        self, call: Call, loop: asyncio.AbstractEventLoop | None, settle: "Callable[[Work[Any], Outcome], None]"
    ) -> None:
        self.id = new_job_id()
        self.name = call.name
        self.call = call
        self.loop = loop
        self.life = WorkLife()
        self.context: Context = copy_context()
        self.outcome: Outcome | None = None
        self._settle = settle
        self._task: asyncio.Task[None] | None = None
        self._over = Latch()

    @property
    def state(self) -> BackgroundState:
        """Where it is now."""
        if self.outcome is not None:
            return self.outcome.state
        return BackgroundState.WAITING if self.started_at is None else BackgroundState.RUNNING

    def cancel(self) -> None:
        """Tell it to end: a coroutine is cancelled, a function in a thread is told; one that waits never begins."""
        self.life.end()
        if self.started_at is None:
            self._settle(self, CANCELLED)
        else:
            self.stop()

    async def acancel(self) -> None:
        """Tell it to end."""
        self.cancel()

    def result(self, timeout: float | None = None) -> R:
        """Wait for it and return what its function returned, or raise what that raised."""
        if not self.ended(timeout):
            raise self._still(timeout)
        return self._read()

    async def aresult(self, timeout: float | None = None) -> R:
        """Wait for it as `result` does, without blocking the event loop."""
        if not await self.aended(timeout):
            raise self._still(timeout)
        return self._read()

    def ended(self, timeout: float | None = None) -> bool:
        """Wait for its end for so many seconds at most; return whether it came."""
        _check(timeout)
        if not self._over.is_set:
            refuse_in_event_loop("to wait for it", "await ….aresult()` or `await ….aended()", BackgroundError)
        return self._over.wait(timeout)

    async def aended(self, timeout: float | None = None) -> bool:
        """Wait for its end as `ended` does, without blocking the event loop."""
        _check(timeout)
        return await self._over.await_(timeout)

    def _read(self) -> R:
        outcome = self.outcome
        assert outcome is not None  # it has ended
        if outcome.state is BackgroundState.CANCELLED:
            raise BackgroundCancelledError(
                f"{self.name} was cancelled{'' if self.started_at else ' before it began'}"
            )
        if outcome.error is not None:
            raise outcome.error
        value: R = outcome.value
        return value

    def _still(self, timeout: float | None) -> ResultTimeoutError:
        return ResultTimeoutError(
            f"{self.name} is still {self.state} after {timeout:g} s; it goes on, ask again later"
        )

    def begin(self, at: datetime) -> None:
        """Take note that it begins now."""
        self.started_at = at

    def run_here(self) -> Outcome:
        """Run a plain function in this thread, in the context in which it was given."""
        try:
            return self.context.run(self._run_here)
        except BaseException as error:  # noqa: BLE001 - it is the outcome of this work only, whatever it is
            return outcome_of(error)

    def _run_here(self) -> Outcome:
        work_here.set(self)
        self.life.raise_if_cancelled()
        value = self.call.run(self.life)
        if inspect.iscoroutine(value):
            value.close()
            raise TypeError(
                f"{self.name} returned a coroutine, which nobody awaits: give app.background the async def"
            )
        return Outcome(BackgroundState.COMPLETED, value)

    def begin_on_loop(self) -> None:
        """Begin with a coroutine, on its event loop."""
        if self.life.cancelled:
            self._settle(self, CANCELLED)
            return
        assert self.loop is not None
        self._task = self.loop.create_task(self._carry(), name=f"background {self.name}", context=self.context)
        self._task.add_done_callback(self._let_go)

    def _let_go(self, _: "asyncio.Task[None]") -> None:
        """Take note of a coroutine that was cancelled before its first line; any other has said how it ended."""
        self._settle(self, CANCELLED)

    async def _carry(self) -> None:
        work_here.set(self)
        try:
            outcome = Outcome(BackgroundState.COMPLETED, await self.call.run(self.life))
        except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit) as error:  # of its loop's concern, too
            self._settle(self, outcome_of(error))
            raise
        except BaseException as error:  # noqa: BLE001 - it is the outcome of this work only, whatever it is
            outcome = outcome_of(error)
        self._settle(self, outcome)

    def stop(self) -> None:
        """Cancel it where it is a coroutine, from any thread."""
        if self.loop is not None:
            with suppress(RuntimeError):  # its loop is closed
                self.loop.call_soon_threadsafe(self._stop_on_loop)

    def _stop_on_loop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def tell(self) -> None:
        """Let those know who wait for its end."""
        self._over.set()

    def abandon(self) -> None:
        """Be over in a process that was forked: nothing of it runs here, and no lock of before can be trusted."""
        self.life, self._over = WorkLife(), Latch()
        self.life.end()
        self.outcome = CANCELLED
        self.tell()


CANCELLED = Outcome(BackgroundState.CANCELLED)


def outcome_of(error: BaseException) -> Outcome:
    """Return what an exception means that ended some work."""
    if isinstance(error, Interrupted | asyncio.CancelledError | GeneratorExit):
        return CANCELLED
    return Outcome(BackgroundState.FAILED, error=error)


def _check(timeout: object) -> None:
    if not (timeout is None or is_number(timeout)):
        raise ConfigurationError(f"timeout must be a number of seconds, or None to wait for ever, not {timeout!r}")
