"""How the jobs of a task are run, and how one job may differ: checked where it is declared, all at once."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Any, TypedDict, Unpack

from standfast.model.backoff import Backoff, Exponential
from standfast.model.job import OnConflict, OnLate
from standfast.model.validation import (
    MAX_DELAY,
    ExceptionTypes,
    IsolationWord,
    OnConflictWord,
    OnLateWord,
    Seconds,
    as_backoff,
    as_bytes,
    as_seconds,
    as_span,
    as_tags,
    as_types,
    as_word,
    id_problems,
    is_finite,
    is_int,
    is_word,
    key_problems,
    late_problems,
    metadata_problems,
    patience_problems,
    refuse_any,
    routing_problems,
    span_problems,
    tag_problems,
    time_problems,
)

LEAST_MEMORY = 32_000_000
"""Bytes below which a limit is a mistake in units: an interpreter with nothing but this package takes as much."""


class Isolation(StrEnum):
    """What a handler shares with others."""

    NONE = "none"
    """It runs in its worker's own process, as a coroutine or in a thread."""
    PROCESS = "process"
    """It runs in a process of its own, which can be ended without harm to anything else."""


def isolation_problems(isolation: Any, memory: Any) -> Iterator[str]:
    """Yield what is wrong with where a handler runs and how much memory it may take."""
    if not is_word(Isolation, isolation):
        yield f"isolation must be 'none' or 'process', not {isolation!r}"
    if memory is None:
        return
    if not is_int(memory) or memory < LEAST_MEMORY:
        yield f"memory must be a size such as '512MB' or '1GiB', or as many bytes, at least 32MB, not {memory!r}"
    if isolation == Isolation.NONE:
        yield "memory can be limited only in a process of its own; add isolation='process'"


@dataclass(frozen=True, slots=True)
class Policy:
    """How the jobs of a task are run.

    `timeout` is in seconds. `discard_on` wins over `retry_on`; with `retry_on` None every other exception is
    retried, else those outside it are not and the job is dead at once. `version` is that of the payload: raise it
    when the parameters change so that older workers leave newer jobs alone. `start_within`: the first start should
    come so soon after a job's time, else `on_late` decides. `keep_result`: for how long a result is kept.
    `isolation`: whether handlers run in a process of their own, where `memory` is how many bytes one may take.
    """

    queue: str = "default"
    priority: int = 0
    max_attempts: int = 5
    backoff: Backoff = field(default_factory=Exponential)
    timeout: float | None = None
    retry_on: tuple[type[BaseException], ...] | None = None
    discard_on: tuple[type[BaseException], ...] = ()
    version: int = 1
    start_within: timedelta | None = None
    on_late: OnLate = OnLate.RUN
    tags: tuple[str, ...] = ()
    keep_result: timedelta | None = None
    isolation: Isolation = Isolation.NONE
    memory: int | None = None

    def __post_init__(self) -> None:
        refuse_any(self._problems())

    def _problems(self) -> Iterator[str]:
        yield from routing_problems(self.queue, self.priority, self.max_attempts)
        if isinstance(self.backoff, type) or not callable(getattr(self.backoff, "delay", None)):
            yield f"backoff must be a number of seconds or such as Exponential(base=1), not {self.backoff!r}"
        if self.timeout is not None and not (is_finite(self.timeout) and self.timeout > 0):
            yield f"timeout must be a number of seconds above 0, or None for no limit, not {self.timeout!r}"
        elif self.timeout is not None and self.timeout > MAX_DELAY.total_seconds():
            yield f"timeout must be at most a hundred years, or None for no limit, not {self.timeout!r}"
        for name, types in (("retry_on", self.retry_on or ()), ("discard_on", self.discard_on)):
            if not all(isinstance(each, type) and issubclass(each, BaseException) for each in types):
                yield f"{name} must be an exception type or a tuple of them, not {types!r}"
        if self.retry_on == ():
            yield "retry_on names no exception type; leave it out to retry all, or give max_attempts=1 for none"
        if not is_int(self.version) or self.version < 1:
            yield f"version must be an integer, 1 or more, not {self.version!r}"
        yield from late_problems(self.start_within, self.on_late)
        yield from tag_problems(self.tags)
        yield from span_problems("keep_result", self.keep_result)
        yield from isolation_problems(self.isolation, self.memory)


DEFAULT = Policy()
"""How the jobs of a task are run about which nothing was declared."""


class PolicyOptions(TypedDict, total=False):
    """The policy of a task as its declaration says it: a number as `backoff` is a constant wait of so many seconds."""

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


_KEPT_AS: Mapping[str, Callable[[Any], Any]] = {
    "backoff": as_backoff,
    "timeout": as_seconds,
    "retry_on": lambda types: None if types is None else as_types(types),
    "discard_on": as_types,
    "start_within": as_span,
    "on_late": partial(as_word, OnLate),
    "tags": as_tags,
    "keep_result": as_span,
    "isolation": partial(as_word, Isolation),
    "memory": as_bytes,
}
"""How a policy keeps the options that people write in several ways."""


def declare_policy(**options: Unpack[PolicyOptions]) -> Policy:
    """Return the policy that a declaration means. Raises ConfigurationError that names everything wrong with it."""
    given: dict[str, Any] = {**options}
    return Policy(**{name: _KEPT_AS[name](value) if name in _KEPT_AS else value for name, value in given.items()})


@dataclass(frozen=True, slots=True)
class Options:
    """How one job differs from the policy of its task; None means as the policy says. `tx` is the caller's own."""

    delay: timedelta = timedelta()
    at: datetime | None = None
    priority: int | None = None
    queue: str | None = None
    max_attempts: int | None = None
    job_id: str | None = None
    key: str | None = None
    on_conflict: OnConflict = OnConflict.RETURN
    keep_key: timedelta = timedelta()
    start_within: timedelta | None = None
    on_late: OnLate | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    retry_for: float | None = None
    tx: Any = None


class JobOptions(TypedDict, total=False):
    """The options of the next job, as `task.options(...)` takes them."""

    delay: Seconds | None
    at: datetime | None
    priority: int | None
    queue: str | None
    max_attempts: int | None
    job_id: str | None
    key: str | None
    on_conflict: OnConflictWord
    keep_key: Seconds | None
    start_within: Seconds | None
    on_late: OnLateWord | None
    tags: Iterable[str]
    metadata: Mapping[str, str] | None
    retry_for: Seconds | None
    tx: Any


_ROUTING = ("queue", "priority", "max_attempts")
_NOT_GIVEN: Mapping[str, Any] = {**dict.fromkeys(JobOptions.__annotations__), "on_conflict": "return", "tags": ()}


def declare_options(**options: Unpack[JobOptions]) -> Options:
    """Return checked options. Raises ConfigurationError that names everything wrong with them."""
    given = {**_NOT_GIVEN, **options}
    routing = (getattr(DEFAULT, name) if given[name] is None else given[name] for name in _ROUTING)
    start_within, on_late, tags = as_span(given["start_within"]), given["on_late"], as_tags(given["tags"])
    refuse_any(
        [
            *time_problems(given["delay"], given["at"]),
            *routing_problems(*routing),
            *id_problems(given["job_id"]),
            *key_problems(given["key"], given["on_conflict"], given["keep_key"]),
            *late_problems(start_within, "run" if on_late is None else on_late),
            *tag_problems(tags),
            *metadata_problems(given["metadata"]),
            *patience_problems(given["retry_for"], given["tx"]),
        ]
    )
    return Options(
        **{
            **given,
            "delay": timedelta(seconds=as_seconds(given["delay"]) or 0.0),
            "at": None if given["at"] is None else given["at"].astimezone(UTC),
            "on_conflict": OnConflict(given["on_conflict"]),
            "keep_key": as_span(given["keep_key"]) or timedelta(),
            "start_within": start_within,
            "on_late": None if on_late is None else OnLate(on_late),
            "tags": tags,
            "metadata": dict(given["metadata"] or {}),
            "retry_for": as_seconds(given["retry_for"]),
        }
    )
