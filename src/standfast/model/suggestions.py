"""Names that do not exist: refused with the name that may have been meant."""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar, get_args

from msgspec import Struct, StructMeta

from standfast.errors import ConfigurationError

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_ALIKE = 0.6
"""From which likeness on, of 1, a name may be a slip of another."""


_OTHER_WORDS = {
    "retry": "max_attempts",
    "retry_delay": "backoff",
    "retries": "max_attempts",
    "max_retries": "max_attempts",
    "countdown": "delay",
    "eta": "at",
    "run_at": "at",
    "expires": "start_within",
    "task_id": "job_id",
    "time_limit": "timeout",
    "default_timeout": "timeout",
    "soft_time_limit": "timeout",
    "autoretry_for": "retry_on",
    "default_retry_delay": "backoff",
    "cron": "schedule",
    "unique": "key",
    "zone": "tz",
    "timezone": "tz",
    "time_zone": "tz",
}
"""What is called so elsewhere, and how here."""


_OTHER_WAYS = {
    "bind": "a handler with a parameter `ctx: Context` receives the context of its job",
    "acks_late": "a job is acknowledged when its handler has ended, always;"
    " a job of max_attempts=1 runs at most once",
    "ignore_result": "results are kept with their jobs; @app.task(keep_result=...) says for how long",
    "rate_limit": "there is no rate limit; `concurrency` limits how many of its jobs run at a time in one process,"
    " app.semaphore how many in all",
}
"""Options elsewhere for what needs none here."""

_URL_FIRST = 'the URL of the store is the first argument, as in Standfast("redis://localhost")'
_RESULTS_THERE = "results are in the store, whose URL is the first argument"
_WAYS_IN = {
    "Standfast": {
        "broker": _URL_FIRST,
        "broker_url": _URL_FIRST,
        "backend": _RESULTS_THERE,
        "result_backend": _RESULTS_THERE,
        **dict.fromkeys(
            ("max_attempts", "backoff", "queue", "priority", "schedule", "retry_on"),
            "give it to the task: @app.task({}=...)",
        ),
    },
    "Every": dict.fromkeys(("seconds", "minutes", "hours", "days"), "write Every(timedelta({}=5))"),
}
"""Likewise, of one place alone; `{}` is the option as it is called here."""

NO_SIGNATURES = "a task has no signatures: enqueue the next job in the handler of the one before, or use ctx.step"

OTHER_IMPORTS = {
    **dict.fromkeys(("chain", "chord", "group", "signature"), NO_SIGNATURES),
    "shared_task": "write @app.task, with an app that is made in a module of its own",
    "Celery": "write `from standfast import Standfast`, and Standfast(URL)",
}
"""What is imported elsewhere, and what is written here."""


def refuse_unknown(where: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise ConfigurationError for the first name that is not known."""
    for name in given:
        if name not in known:
            other = _OTHER_WORDS.get(name, name)
            way = _WAYS_IN.get(where, {}).get(other, "").replace("{}", other)
            way = way or _OTHER_WAYS.get(name) or hint(name, known)
            raise ConfigurationError(f"{where} has no option {name!r}; {way}")


def option_meant(name: str, known: Collection[str]) -> str | None:
    """Return the option that has this name here or elsewhere."""
    other = _OTHER_WORDS.get(name, name)
    return other if other in known else None


def hint(name: str, known: Collection[str], written: Callable[[str], str] = str) -> str:
    """Return which known name may have been meant, else which there are, as people write them."""
    other = _OTHER_WORDS.get(name)
    meant = other if other in known else closest_name(name, known)
    return f"there are: {', '.join(map(written, known))}" if meant is None else f"did you mean {written(meant)}?"


def closest_name(name: str, known: Collection[str], alike: float = _ALIKE) -> str | None:
    """Return the known name that may have been meant."""
    import difflib  # noqa: PLC0415 - only for those who mistyped

    return next(iter(difflib.get_close_matches(name.lower(), known, 1, cutoff=alike)), None)


def options_of(where: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a method with keyword options refuse those that it does not have. Type checkers see it as it is."""

    def checked(method: Callable[P, R]) -> Callable[P, R]:
        known = _keywords(inspect.signature(method).parameters)

        @wraps(method)
        def call(*args: P.args, **options: P.kwargs) -> R:
            refuse_unknown(where, options, known)
            return method(*args, **options)

        return call

    return checked


def _keywords(parameters: Mapping[str, inspect.Parameter]) -> list[str]:
    """Return the names of parameters, and for `**options: Unpack[T]` those of the TypedDict."""
    known = [name for name, each in parameters.items() if name != "self" and each.kind is not each.VAR_KEYWORD]
    unpacked = (each.annotation for each in parameters.values() if each.kind is each.VAR_KEYWORD)
    return [*known, *(name for each in unpacked for name in get_args(each)[0].__annotations__)]


def options_checked(kind: type[T]) -> type[T]:
    """Let a class refuse options that it does not have."""
    setattr(kind, "__init__", options_of(kind.__name__)(getattr(kind, "__init__")))  # noqa: B009, B010 - for mypy
    return kind


class _Absent:
    """An attribute that other systems have: to ask for it is an error that says what to write here."""

    def __init__(self, name: str, way: str) -> None:
        self._name = name
        self._way = way

    def __get__(self, thing: object, kind: type) -> NoReturn:
        if thing is None:
            raise AttributeError(f"type object {kind.__name__!r} has no attribute {self._name!r}")
        called = getattr(getattr(thing, "task", thing), "__name__", "TASK")
        raise AttributeError(
            f"{kind.__name__!r} object has no attribute {self._name!r}; {self._way.replace('{}', called)}"
        )


def with_migration_hints(ways: Mapping[str, str]) -> Callable[[type[T]], type[T]]:
    """Let a class say what to write instead of the attributes of other systems. `{}` is the task's name.

    A `__getattr__` would do the same, and make the reading of every attribute slower.
    """

    def said(kind: type[T]) -> type[T]:
        for name in ways.keys() - set(dir(kind)):
            setattr(kind, name, _Absent(name, ways[name]))
        return kind

    return said


def written_as(word: str) -> Callable[[type[T]], type[T]]:
    """Let Python's own errors name the methods of a class as users write them: `ctx.step()`."""

    def named(kind: type[T]) -> type[T]:
        for name, method in vars(kind).items():
            if inspect.isfunction(method) and not name.startswith("_"):
                inspect.unwrap(method).__qualname__ = method.__qualname__ = f"{word}.{name}"
        return kind

    return named


class Declared(StructMeta):
    """The kind of classes whose options are checked by name. Type checkers go by `__init__` instead."""

    if not TYPE_CHECKING:

        def __call__(cls, *args: Any, **options: Any) -> Any:  # noqa: D102, N805 - it makes the object
            refuse_unknown(cls.__name__, options, cls.__struct_fields__)
            return super().__call__(*args, **options)


class DeclaredOfMany(Declared):
    """Likewise, of classes that take any number of things: these are the first field."""

    if not TYPE_CHECKING:

        def __call__(cls, *many: Any, **options: Any) -> Any:  # noqa: D102, N805 - it makes the object
            return super().__call__(**{cls.__struct_fields__[0]: many, **options})


class DeclaredStruct(
    Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, repr_omit_defaults=True, metaclass=Declared
):
    """What is declared with options, and kept as JSON, in which those with their defaults are left out."""
