"""A task: a function with its name and policy, and the ways to enqueue jobs for it.

Everything is bound, checked and encoded before anything is written; sync and async differ in one call only.
"""

import asyncio
import inspect
import os
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec, TypeVar, Unpack, overload

from msgspec.structs import replace

from standfast.context import Context
from standfast.errors import ArgumentsError, ConfigurationError, StandfastError, StoreError
from standfast.handle import Caller, JobHandle
from standfast.model.arguments import Arguments, Upgrade
from standfast.model.backoff import TRANSIENT_ERRORS, RetryDeadline
from standfast.model.concurrency import run_without_loop
from standfast.model.ids import new_job_id
from standfast.model.job import KnownTask, NewJob
from standfast.model.policy import JobOptions, Options, Policy, PolicyOptions, declare_options, declare_policy
from standfast.model.suggestions import NO_SIGNATURES, options_of, refuse_unknown, with_migration_hints
from standfast.model.tracing import Tracing
from standfast.model.validation import name_problems, refuse_any, sum_problems
from standfast.schedules.closed_hours import Windows
from standfast.schedules.declarations import Declaration
from standfast.schedules.limits import Gates, Peaks
from standfast.schedules.operations import declare
from standfast.schedules.rules import AnyRule
from standfast.stores.refusals import in_doubt
from standfast.stores.url import callers

P = ParamSpec("P")
R = TypeVar("R")
E = TypeVar("E", bound=BaseException)

JOBS_PER_CALL = 1000
"""How many jobs of `enqueue_many` are written in one transaction, at most."""

BYTES_PER_CALL = 8_000_000
"""How many bytes of arguments are written in one transaction, more or less: a call has to end in time."""


_ENQUEUE = "write {}.enqueue(...), or in async code await {}.aenqueue(...)"
_OPTIONS = "write {}.options(delay=..., queue=...).enqueue(...)"
_ELSEWHERE = {
    "delay": _ENQUEUE,
    "send": _ENQUEUE,
    "defer": _ENQUEUE,
    "kiq": _ENQUEUE,
    "apply_async": _OPTIONS,
    "send_with_options": _OPTIONS,
    "configure": _OPTIONS,
    "enqueue_in": _OPTIONS,
    "map": "write {}.enqueue_many({}.args(each) for each in ...)",
    "enqueue_at": "write {}.options(at=...).enqueue(...)",
    "apply": "write {}(...), which calls the function here",
    "retry": "write `raise standfast.Retry(...)` in the handler",
    "request": "write standfast.current_context() in the handler, or give it a parameter `ctx: Context`",
    **dict.fromkeys(("s", "si", "signature", "subtask", "chunks", "starmap"), NO_SIGNATURES),
}
"""What people write who come from other systems, and how it is written here."""


_OF_ONE_JOB = ("delay", "at", "job_id", "key", "retry_for", "tx")
"""Options that say something about one job, and nothing about every job of a schedule."""


@with_migration_hints(_ELSEWHERE)
class Task(Generic[P, R]):
    """A registered function. `P` are the arguments that callers give, without the Context; `R` its result.

    Calling the task calls the function, with the Context if it takes one; nothing is enqueued. A type checker
    knows the call without the Context; tests run jobs with the testing kit, which brings one.
    """

    is_async: ClassVar[bool]

    def __init__(self, fn: Callable[..., Any], name: str, policy: Policy, caller: Caller) -> None:
        self.fn = fn
        self.name = name
        self.policy = policy
        self.arguments = Arguments(fn, task=name, version=policy.version, options=JobOptions.__annotations__)
        self._caller = caller
        self._plain: BoundTask[P, R] = BoundTask(self, Options(), caller)
        # Not functools.update_wrapper, which would let attributes of the function replace ours.
        self.__wrapped__ = fn
        self.__name__ = fn.__name__
        self.__doc__ = fn.__doc__

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} on {self.policy.queue}>"

    @property
    def known(self) -> KnownTask:
        """The name and payload version by which workers say that they can run it."""
        return KnownTask(self.name, self.policy.version)

    @property
    def result_type(self) -> Any:
        """What the function returns, from its annotation."""
        return self.arguments.result_type

    @options_of("task.options")
    def options(self, **options: Unpack[JobOptions]) -> "BoundTask[P, R]":
        """Return the task with options for the next enqueue; the task itself stays as it is.

        `delay` or `at` says when it runs. `job_id` makes an enqueue idempotent; `key` is unique among
        unfinished jobs of the task, and `on_conflict` says what becomes of a second one. `start_within` and
        `on_late` are about jobs that start late, `retry_for` about a store that is away. `tx`, a connection of
        your own to the same database, makes the job a part of your transaction.
        """
        return BoundTask(self, declare_options(**options), self._caller)

    def upgrade(self, from_version: int) -> Callable[[Upgrade], Upgrade]:
        """Declare, as a decorator, how the arguments of a payload of that version become those of the next.

        The function takes them by name as plain JSON values, and returns those of the next version.
        """
        if callable(from_version):
            raise ConfigurationError(
                f"the upgrade of {self.name} does not say from which version it is: write"
                f" @{self.__name__}.upgrade(1), with the version whose payloads it takes"
            )

        def declare(upgrade: Upgrade) -> Upgrade:
            self.arguments.upgrades.declare(from_version, upgrade)
            return upgrade

        return declare

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Enqueue a job and return its handle: when this returns, the job is stored."""
        return self._plain.enqueue(*args, **kwargs)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Enqueue a job from async code."""
        return await self._plain.aenqueue(*args, **kwargs)

    def args(self, *args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
        """Return arguments by name, for `enqueue_many`: a type checker checks them as those of `enqueue`."""
        return self.arguments.bind(args, kwargs)

    def enqueue_many(self, jobs: Iterable[Mapping[str, Any]]) -> list[JobHandle[R]]:
        """Enqueue a job for each mapping of arguments, a thousand per transaction; all are checked first.

        `add.enqueue_many(add.args(n, b=2) for n in range(10))`
        """
        return self._plain.enqueue_many(jobs)

    async def aenqueue_many(self, jobs: Iterable[Mapping[str, Any]]) -> list[JobHandle[R]]:
        """Enqueue many jobs from async code."""
        return await self._plain.aenqueue_many(jobs)

    def scheduled(self, schedule: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> NewJob:
        """Return the job that a schedule enqueues."""
        return self._plain.scheduled(schedule, args, kwargs)

    def handle(self, job_id: str) -> JobHandle[R]:
        """Return a handle for a job of this task whose id was kept; the store is asked nothing yet."""
        return JobHandle(job_id, self.name, self._caller, self.result_type)


class SyncTask(Task[P, R]):
    """A task whose function is a plain `def`."""

    is_async = False

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function here and now."""
        result: R = self.fn(*args, **kwargs)
        return result


class AsyncTask(Task[P, R]):
    """A task whose function is an `async def`."""

    is_async = True

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """Call the function here and now: await what this returns."""
        result: Coroutine[Any, Any, R] = self.fn(*args, **kwargs)
        return result


@with_migration_hints(_ELSEWHERE)
@dataclass(frozen=True)  # slots and Generic do not go together in Python 3.11
class BoundTask(Generic[P, R]):
    """A task together with the options of its next jobs."""

    task: Task[P, R]
    given: Options
    caller: Caller

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Enqueue a job and return its handle: when this returns, the job is stored."""
        job = self._new_job(self.task.arguments.encode(args, kwargs))
        handle = self._handle(job)  # before the call: an exception after it would leave the job in `tx`
        taken = run_without_loop(self._store((job,), at_once=True))
        return self._existing(job, taken) if taken else handle

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Enqueue a job from async code."""
        job = self._new_job(self.task.arguments.encode(args, kwargs))
        handle = self._handle(job)
        taken = await self._store((job,), at_once=False)
        return self._existing(job, taken) if taken else handle

    def enqueue_many(self, jobs: Iterable[Mapping[str, Any]]) -> list[JobHandle[R]]:
        """Enqueue a job for each mapping of arguments, a thousand per transaction; all are checked first.

        If the store fails after the first thousand, what is stored stays; a note on the error says how many.
        Inside a transaction of your own (`tx`) it is all or nothing.
        """
        return run_without_loop(self._enqueue_many(jobs, at_once=True))

    async def aenqueue_many(self, jobs: Iterable[Mapping[str, Any]]) -> list[JobHandle[R]]:
        """Enqueue many jobs from async code."""
        return await self._enqueue_many(jobs, at_once=False)

    async def _enqueue_many(self, jobs: Iterable[Mapping[str, Any]], *, at_once: bool) -> list[JobHandle[R]]:
        new_jobs, taken, patience = self._new_jobs(jobs), dict[str, str](), self._patience()
        handles = [self._handle(job) for job in new_jobs]
        if self.given.tx is not None and new_jobs:
            taken |= await self._store(new_jobs, at_once=at_once)
        else:
            for start, chunk in _chunks(new_jobs):
                with _noting_stored(start):
                    taken |= await self._store(chunk, patience, at_once=at_once)
        return [self._existing(job, taken) for job in new_jobs] if taken else handles

    def _store(
        self, jobs: Sequence[NewJob], patience: RetryDeadline | None = None, *, at_once: bool
    ) -> Coroutine[Any, Any, Mapping[str, str]]:
        """Enqueue, within a span where the app is traced."""
        tracing = self.caller.tracing
        if tracing is None:
            return self._write(jobs, patience, at_once=at_once)
        return self._write_traced(tracing, jobs, patience, at_once=at_once)

    async def _write_traced(
        self, tracing: Tracing, jobs: Sequence[NewJob], patience: RetryDeadline | None, *, at_once: bool
    ) -> Mapping[str, str]:
        with tracing.enqueueing(jobs) as traced:
            return await self._write(traced, patience, at_once=at_once)

    async def _write(
        self, jobs: Sequence[NewJob], patience: RetryDeadline | None, *, at_once: bool
    ) -> Mapping[str, str]:
        """Store jobs; tried again with the same ids, which a try whose answer was lost may have stored already."""
        caller, tx, doubt = self.caller, self.given.tx, False
        try:
            while True:
                try:
                    verb = caller.verbs.enqueue(jobs)
                    return caller.call(verb, tx) if at_once else await caller.acall(verb, tx)
                except TRANSIENT_ERRORS as error:
                    doubt = doubt or error.in_doubt
                    patience = patience or self._patience()
                    if patience is None:
                        raise
                    pause = patience.pause_after(error)
                if at_once:
                    time.sleep(pause)  # noqa: ASYNC251 - no event loop is waiting
                else:
                    await asyncio.sleep(pause)
        except BaseException as error:
            if tx is None and isinstance(error, StoreError):
                if doubt and not error.in_doubt:  # it is of the last try, and an earlier one may have stored them
                    raise _noted(in_doubt(error), jobs) from error.__cause__
                if error.in_doubt:
                    _noted(error, jobs)
            elif tx is None and not isinstance(error, StandfastError):
                _noted(error, jobs)
            raise

    def _patience(self) -> RetryDeadline | None:
        """Return how long to go on trying, if at all: a transaction of the caller's own is over at a failure."""
        seconds = self.caller.retry_for if self.given.retry_for is None else self.given.retry_for
        return RetryDeadline(seconds) if seconds and self.given.tx is None else None

    def args(self, *args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
        """Return arguments by name, for `enqueue_many`."""
        return self.task.args(*args, **kwargs)

    def request(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> NewJob:
        """Return the job that an enqueue would store, complete and validated."""
        return self._new_job(self.task.arguments.encode(args, kwargs))

    def scheduled(self, schedule: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> NewJob:
        """Return the job that a schedule enqueues. Raises ConfigurationError for options about one job."""
        for option in _OF_ONE_JOB:
            if getattr(self.given, option) != getattr(type(self.given)(), option):
                raise ConfigurationError(
                    f"schedule {schedule!r}: the option {option} is about one job; a schedule takes queue, priority,"
                    " max_attempts, start_within, on_late, tags and metadata"
                )
        return self.request(args, kwargs)

    def _new_job(self, payload: bytes) -> NewJob:
        return replace(self._pattern, id=self.given.job_id or new_job_id(), payload=payload)

    @cached_property
    def _pattern(self) -> NewJob:
        """A job of this task with these options, but for what each has of its own."""
        policy, given = self.task.policy, self.given
        start_within = given.start_within or policy.start_within
        refuse_any(sum_problems(given.at, start_within))
        return NewJob(
            id="",
            task=self.task.name,
            payload=b"",
            version=policy.version,
            queue=policy.queue if given.queue is None else given.queue,
            priority=policy.priority if given.priority is None else given.priority,
            run_at=given.at,
            delay=given.delay,
            max_attempts=policy.max_attempts if given.max_attempts is None else given.max_attempts,
            key=given.key,
            on_conflict=given.on_conflict,
            keep_key=given.keep_key,
            start_within=start_within,
            on_late=given.on_late or policy.on_late,
            tags=tuple(dict.fromkeys((*policy.tags, *given.tags))) if given.tags else policy.tags,
            metadata=given.metadata,
        )

    def _new_jobs(self, jobs: Iterable[Mapping[str, Any]]) -> list[NewJob]:
        new_jobs = [self._new_job(payload) for payload in self._payloads(jobs)]
        for name in ("job_id", "key"):
            if getattr(self.given, name) is not None and len(new_jobs) > 1:
                raise ArgumentsError(f"{name} names one job, and several were given; enqueue them one by one")
        return new_jobs

    def _payloads(self, jobs: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
        for index, arguments in enumerate(jobs):
            if not isinstance(arguments, dict | Mapping):  # to ask an abstract class takes time
                raise ArgumentsError(
                    f"jobs[{index}]: enqueue_many takes mappings of argument names to values,"
                    f" not {type(arguments).__qualname__}"
                )
            try:
                yield self.task.arguments.encode((), arguments)
            except ArgumentsError as error:
                raise ArgumentsError(f"jobs[{index}]: {error}") from error

    def _handle(self, job: NewJob) -> JobHandle[R]:
        return JobHandle(job.id, job.task, self.caller, self._result_type)

    def _existing(self, job: NewJob, taken: Mapping[str, str]) -> JobHandle[R]:
        """Return the handle of the job, or of the one that had its key or its id before."""
        existing = taken.get(job.id)
        # An id that was made here is known already only where the answer to an earlier try was lost.
        created = existing is None or (existing == job.id and self.given.job_id is None)
        return JobHandle(existing or job.id, job.task, self.caller, self._result_type, created)

    @cached_property
    def _result_type(self) -> Any:
        return self.task.result_type


def declare_task(fn: Callable[..., Any], name: str | None, policy: Policy, caller: Caller) -> Task[..., Any]:
    """Return the task that a function is declared as. Raises ConfigurationError where it cannot be one."""
    fn = fn.__func__ if isinstance(fn, staticmethod) else fn
    if not (inspect.isroutine(fn) and callable(fn)):
        raise ConfigurationError(f"a task must be a function, not {fn!r}; decorate a def or an async def")
    _refuse_mistaken(fn)
    chosen = fn.__name__ if name is None else name
    refuse_any(f"{problem}; give name=" for problem in name_problems("task", chosen))
    kind: type[Task[..., Any]] = AsyncTask if inspect.iscoroutinefunction(fn) else SyncTask
    return kind(fn, chosen, policy, caller)


def _refuse_mistaken(fn: Callable[..., Any]) -> None:
    """Raise ConfigurationError for a function that would run, and not do what is meant."""
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise ConfigurationError(f"{fn.__qualname__} yields, and a task must return; collect its values instead")
    if inspect.iscoroutinefunction(inspect.unwrap(fn)) and not inspect.iscoroutinefunction(fn):
        raise ConfigurationError(
            f"{fn.__qualname__} is a plain function around an `async def`, whose coroutine nobody would await: make"
            " the wrapper an `async def` that awaits it, or put @app.task right above the `async def`"
        )
    parameters = inspect.signature(fn).parameters
    if "ctx" in parameters and parameters["ctx"].annotation is inspect.Parameter.empty:
        raise ConfigurationError(
            f"{fn.__qualname__} has a parameter ctx without a type, which callers would have to give: write"
            " `ctx: Context` to receive the context of the job, or the type of the argument that is meant"
        )
    first = next(iter(parameters.values()), None)
    if first is not None and first.name in {"self", "cls"} and first.annotation is first.empty:
        raise ConfigurationError(
            f"{fn.__qualname__} is a method, and a worker has no object to call it on: put @staticmethod above"
            " @app.task, or write a function, and pass what it needs as arguments"
        )


def _chunks(jobs: Sequence[NewJob]) -> Iterator[tuple[int, Sequence[NewJob]]]:
    """Yield parts of the jobs that are neither too many nor too large for one call, each with where it begins."""
    start = size = 0
    for end, job in enumerate(jobs):
        if end - start >= JOBS_PER_CALL or (end > start and size + len(job.payload) > BYTES_PER_CALL):
            yield start, jobs[start:end]
            start, size = end, 0
        size += len(job.payload)
    if jobs:
        yield start, jobs[start:]


def _noted(error: E, jobs: Sequence[NewJob]) -> E:
    """Let an error tell which jobs may be stored all the same."""
    if len(jobs) > 1:
        note = f"it is not known whether {len(jobs)} jobs were stored, or none of them: the first is {jobs[0].id}"
    else:
        note = (
            f"it is not known whether job {jobs[0].id} was stored; to enqueue it again without a second job, use"
            f" options(job_id='{jobs[0].id}')"
        )
    error.add_note(note)
    return error


@contextmanager
def _noting_stored(count: int) -> Iterator[None]:
    """Let an error tell what went well before it: to repeat the whole call would enqueue that twice."""
    try:
        yield
    except BaseException as error:
        if count:
            error.add_note(f"the first {count} of these jobs are stored: do not enqueue them again")
        raise


# The overloads tell a type checker, for each kind of function, which arguments `enqueue` takes and what the result
# is. A Context in first position is not among the arguments; elsewhere it works, but a type checker asks for it.


@dataclass(frozen=True, slots=True)
class DeclaredAt:
    """Where something is declared, and by which run of which module: its spec is another each time it is loaded.

    A script, a notebook and a shell have no spec; what is `typed` there is of no file.
    """

    module: str
    file: str
    line: int
    running: str
    spec: object
    typed: bool

    @classmethod
    def here(cls) -> "DeclaredAt":
        """Return where this is called from, outside of Standfast."""
        frames = [*callers()] or [sys._getframe()]  # noqa: SLF001 - the documented way
        at, run = frames[0], next((each for each in frames if each.f_code.co_name == "<module>"), frames[0])
        module, running = (str(each.f_globals.get("__name__", "")) for each in (at, run))
        spec, file = run.f_globals.get("__spec__"), run.f_code.co_filename
        typed = spec is None and run.f_globals.get("__file__") != file
        return cls(module, at.f_code.co_filename, at.f_lineno, running, spec, typed)

    def repeats(self, before: "DeclaredAt") -> bool:
        """Tell whether it is declared again, as its module, or a cell of a notebook, was run again."""
        return self.running == before.running and (self.spec is not before.spec or self.typed)

    def told(self, name: str) -> str:
        """Return it in words."""
        return f"{self.module}.{name} ({os.path.basename(self.file)}, line {self.line})"  # noqa: PTH119 - any text


def refuse_alike(name: str, first: str, at: DeclaredAt, second: str, again: DeclaredAt) -> ConfigurationError:
    """Return the error of two tasks of one name: were it given to one by itself, imports would decide which."""
    if at.module != again.module and (at.file, at.line) == (again.file, again.line):
        return ConfigurationError(
            f"two tasks are named {name!r}: {at.told(first)} and {again.told(second)} are one file that is imported"
            " under two names; import it by one of them"
        )
    return ConfigurationError(
        f"two tasks are named {name!r}: {at.told(first)} and {again.told(second)}; give one of them another name,"
        f" as in name='{again.module}.{name}'"
    )


Register = Callable[[Callable[..., Any], Policy, "TaskOptions"], Task[..., Any]]
"""Makes a task of a function, its policy and all that is declared, and remembers it."""


class TaskOptions(PolicyOptions, total=False):
    """What may be declared of a task: its policy, and what an app and its workers go by."""

    name: str | None
    schedule: AnyRule | None
    window: Windows | None
    concurrency: int | None
    peak: Peaks | None
    gate: Gates | None


class TaskDecorator:
    """What `app.task` is: a decorator, and with arguments a maker of one that declares by another policy."""

    def __init__(self, register: Register, **declared: Unpack[TaskOptions]) -> None:
        refuse_unknown("app.task", declared, TaskOptions.__annotations__)
        self._register = register
        self._declared = declared
        policy: Any = {name: value for name, value in declared.items() if name in PolicyOptions.__annotations__}
        self._policy = declare_policy(**policy)

    # A coroutine function is also a function of some result: mypy cannot know that the first match is meant.
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, fn: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /, **options: Unpack[TaskOptions]
    ) -> AsyncTask[P, R]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, fn: Callable[P, Coroutine[Any, Any, R]], /, **options: Unpack[TaskOptions]
    ) -> AsyncTask[P, R]: ...
    @overload
    def __call__(
        self, fn: Callable[Concatenate[Context, P], R], /, **options: Unpack[TaskOptions]
    ) -> SyncTask[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /, **options: Unpack[TaskOptions]) -> SyncTask[P, R]: ...
    @overload
    def __call__(self, fn: None = None, /, **options: Unpack[TaskOptions]) -> "TaskDecorator": ...
    def __call__(self, fn: Callable[..., Any] | None = None, /, **declared: Any) -> Any:
        """Make `fn` a task, or return a decorator that will, by the policy declared.

        See `TaskOptions` and `standfast.model.policy.Policy` for what can be declared.
        """
        declaring = TaskDecorator(self._register, **{**self._declared, **declared}) if declared else self
        return declaring if fn is None else declaring._made_of(fn)  # noqa: SLF001 - one of its own kind

    def _made_of(self, fn: Callable[..., Any]) -> Task[..., Any]:
        return self._register(fn, self._policy, self._declared)


def declare_own(task: Task[..., Any], rule: AnyRule) -> Declaration:
    """Return the declaration of a task's own schedule, which gives it no arguments."""
    try:
        return declare(task.name, task, rule, (), {})
    except ArgumentsError as error:
        raise ConfigurationError(
            f"task {task.name} has a schedule, which gives it no arguments, and cannot run without: {error}; give"
            f" them defaults, or declare app.schedule({task.name!r}, {task.__name__}, rule, ...) with arguments"
        ) from error
