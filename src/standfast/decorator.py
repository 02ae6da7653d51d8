"""The `@app.task` decorator: bare or with arguments, for sync and async functions, with or without a Context.

The overloads tell a type checker, for each kind of function, which arguments `enqueue` takes and what the result
is. A Context in first position is not among the arguments; elsewhere it works, but a type checker asks for it.
"""

import inspect
import os
import sys
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypedDict, TypeVar, Unpack, overload

from msgspec import UNSET, UnsetType

from standfast.context import Context
from standfast.core.backoff import Backoff
from standfast.errors import ArgumentsError, ConfigurationError
from standfast.gates.limit import Peaks
from standfast.gates.limits import Gates
from standfast.opening import callers
from standfast.policy import ExceptionTypes, IsolationWord, OnLateWord, Policy, Seconds, declare_policy
from standfast.schedule.closing import Windows
from standfast.schedule.declaring import Declaration
from standfast.schedule.rules import AnyRule
from standfast.schedule.schedules import declare
from standfast.spelling import refuse_unknown
from standfast.task import AsyncTask, SyncTask, Task

P = ParamSpec("P")
R = TypeVar("R")

_BESIDE_THE_POLICY = ("name", "schedule", "window", "concurrency", "peak", "gate")

_OPTIONS = ("name", *inspect.signature(declare_policy).parameters, *_BESIDE_THE_POLICY[1:])


@dataclass(frozen=True, slots=True)
class Beside:
    """What is declared of a task beside its policy; None where nothing is."""

    name: str | None
    schedule: AnyRule | None
    window: Windows | None
    concurrency: int | None
    peak: Peaks | None
    gate: Gates | None


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


Register = Callable[[Callable[..., Any], Policy, Beside], Task[..., Any]]
"""Makes a task of a function, a policy and what is beside it, and remembers it."""


class TaskOptions(TypedDict, total=False):
    """What may be declared of a task together with its function: `app.task(fn, queue="mail")`."""

    name: str | None
    queue: str
    priority: int
    max_attempts: int
    backoff: Backoff | Seconds | None
    timeout: Seconds | None
    retry_on: ExceptionTypes | None
    discard_on: ExceptionTypes
    version: int
    start_within: Seconds | None
    on_late: OnLateWord
    tags: Iterable[str]
    keep_result: Seconds | None
    isolation: IsolationWord
    memory: int | str | None
    schedule: AnyRule | None
    window: Windows | None
    concurrency: int | None
    peak: Peaks | None
    gate: Gates | None


class TaskDecorator:
    """What `app.task` is: a decorator, and with arguments a maker of one that declares by another policy."""

    def __init__(self, register: Register, **declared: Any) -> None:
        refuse_unknown("app.task", declared, _OPTIONS)
        self._register = register
        self._declared = declared
        self._beside = Beside(*(declared.get(name) for name in _BESIDE_THE_POLICY))
        policy = {name: declared[name] for name in declared if name not in _BESIDE_THE_POLICY}
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
    def __call__(
        self,
        fn: None = None,
        /,
        *,
        name: str | None = None,
        queue: str = "default",
        priority: int = 0,
        max_attempts: int = 5,
        backoff: Backoff | Seconds | None = None,
        timeout: Seconds | UnsetType | None = UNSET,
        retry_on: ExceptionTypes | None = None,
        discard_on: ExceptionTypes = (),
        version: int = 1,
        start_within: Seconds | None = None,
        on_late: OnLateWord = "run",
        tags: Iterable[str] = (),
        keep_result: Seconds | None = None,
        isolation: IsolationWord = "none",
        memory: int | str | None = None,
        schedule: AnyRule | None = None,
        window: Windows | None = None,
        concurrency: int | None = None,
        peak: Peaks | None = None,
        gate: Gates | None = None,
    ) -> "TaskDecorator": ...
    def __call__(self, fn: Callable[..., Any] | None = None, /, **declared: Any) -> Any:
        """Make `fn` a task, or return a decorator that will, by the policy declared.

        `name` is the function's own unless given, `timeout` that of the app. A task with a `schedule` runs as
        often as that rule says, without arguments; the schedule has the task's name. Inside a `window`, or one of
        several, none of its jobs starts. In one process no more than `concurrency` of its jobs run at a time, fewer
        in a `peak`, and of all tasks that go through a `gate` no more than that lets in. See
        `standfast.policy.Policy` for the rest.
        """
        declaring = TaskDecorator(self._register, **{**self._declared, **declared}) if declared else self
        return declaring if fn is None else declaring._made_of(fn)  # noqa: SLF001 - one of its own kind

    def _made_of(self, fn: Callable[..., Any]) -> Task[..., Any]:
        return self._register(fn, self._policy, self._beside)


def declare_own(task: Task[..., Any], rule: AnyRule) -> Declaration:
    """Return the declaration of a task's own schedule, which gives it no arguments."""
    try:
        return declare(task.name, task, rule, (), {})
    except ArgumentsError as error:
        raise ConfigurationError(
            f"task {task.name} has a schedule, which gives it no arguments, and cannot run without: {error}; give"
            f" them defaults, or declare app.schedule({task.name!r}, {task.__name__}, rule, ...) with arguments"
        ) from error
