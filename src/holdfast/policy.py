"""How the jobs of a task are to be run, and how one job may differ: checked where it is declared, all at once.

Public parameters take seconds or timedeltas; what is kept here has one form only.
"""

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from holdfast.core.retry import Backoff, Constant, Exponential
from holdfast.errors import ConfigurationError

Seconds = float | timedelta
"""A span, as a number of seconds or a timedelta."""

ExceptionTypes = type[BaseException] | tuple[type[BaseException], ...]

MAX_DELAY = timedelta(days=36_525)
"""A hundred years: beyond it a delay is a mistake in units."""

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_PRIORITIES = range(-32768, 32768)
_MAX_ATTEMPTS = 32767
_UUID_VERSION = 7


@dataclass(frozen=True, slots=True)
class Policy:
    """How the jobs of a task are run.

    `timeout` is in seconds. `discard_on` wins over `retry_on`; with `retry_on` None every other exception is
    retried, else those outside it are not and the job is dead at once. `version` is that of the payload: raise it
    when the parameters change so that older workers leave newer jobs alone.
    """

    queue: str = "default"
    priority: int = 0
    max_attempts: int = 5
    backoff: Backoff = field(default_factory=Exponential)
    timeout: float | None = None
    retry_on: tuple[type[BaseException], ...] | None = None
    discard_on: tuple[type[BaseException], ...] = ()
    version: int = 1

    def __post_init__(self) -> None:
        _refuse_any(self._problems())

    def _problems(self) -> Iterator[str]:
        yield from _routing_problems(self.queue, self.priority, self.max_attempts)
        if not callable(getattr(self.backoff, "delay", None)):
            yield f"backoff must be a Backoff or a number of seconds, not {self.backoff!r}"
        if self.timeout is not None and not (_is_finite(self.timeout) and self.timeout > 0):
            yield f"timeout must be a number of seconds above 0, or None for no limit, not {self.timeout!r}"
        for name, types in (("retry_on", self.retry_on or ()), ("discard_on", self.discard_on)):
            if not all(isinstance(each, type) and issubclass(each, BaseException) for each in types):
                yield f"{name} must be an exception type or a tuple of them, not {types!r}"
        if self.retry_on == ():
            yield "retry_on names no exception type; leave it out to retry all, or give max_attempts=1 for none"
        if not _is_int(self.version) or self.version < 1:
            yield f"version must be an integer, 1 or more, not {self.version!r}"


def declare_policy(
    *,
    queue: str = "default",
    priority: int = 0,
    max_attempts: int = 5,
    backoff: Backoff | Seconds | None = None,
    timeout: Seconds | None = None,
    retry_on: ExceptionTypes | None = None,
    discard_on: ExceptionTypes = (),
    version: int = 1,
) -> Policy:
    """Return the policy that a declaration means: a number as `backoff` is a constant wait of so many seconds."""
    return Policy(
        queue=queue,
        priority=priority,
        max_attempts=max_attempts,
        backoff=_as_backoff(backoff),
        timeout=_as_seconds(timeout),
        retry_on=None if retry_on is None else _as_types(retry_on),
        discard_on=_as_types(discard_on),
        version=version,
    )


@dataclass(frozen=True, slots=True)
class Options:
    """How one job differs from the policy of its task; None means as the policy says."""

    delay: timedelta = timedelta()
    run_at: datetime | None = None
    priority: int | None = None
    queue: str | None = None
    max_attempts: int | None = None
    job_id: str | None = None


def declare_options(
    *,
    delay: Seconds | None = None,
    at: datetime | None = None,
    priority: int | None = None,
    queue: str | None = None,
    max_attempts: int | None = None,
    job_id: str | None = None,
) -> Options:
    """Return checked options. Raises ConfigurationError that names everything wrong with them."""
    plain = Policy()
    problems = [
        *_time_problems(delay, at),
        *_routing_problems(
            plain.queue if queue is None else queue,
            plain.priority if priority is None else priority,
            plain.max_attempts if max_attempts is None else max_attempts,
        ),
        *_id_problems(job_id),
    ]
    _refuse_any(problems)
    seconds = _as_seconds(delay) or 0.0
    return Options(
        delay=timedelta(seconds=seconds),
        run_at=None if at is None else at.astimezone(UTC),
        priority=priority,
        queue=queue,
        max_attempts=max_attempts,
        job_id=job_id,
    )


def _refuse_any(problems: Iterable[str]) -> None:
    message = "; ".join(problems)
    if message:
        raise ConfigurationError(message)


def _routing_problems(queue: Any, priority: Any, max_attempts: Any) -> Iterator[str]:
    if not (isinstance(queue, str) and _NAME.fullmatch(queue)):
        yield f"queue must be 1 to 64 letters, digits, '_', '.' or '-', not {queue!r}"
    if not _is_int(priority) or priority not in _PRIORITIES:
        yield f"priority must be an integer from -32768 to 32767, greater first, not {priority!r}"
    if not _is_int(max_attempts) or not 1 <= max_attempts <= _MAX_ATTEMPTS:
        yield f"max_attempts must be an integer from 1 (no retries) to {_MAX_ATTEMPTS}, not {max_attempts!r}"


def _time_problems(delay: Any, at: Any) -> Iterator[str]:
    if delay is not None and at is not None:
        yield "delay and at are both given; keep one"
    seconds = _as_seconds(delay)
    if seconds is not None and not (_is_finite(seconds) and 0 <= seconds <= MAX_DELAY.total_seconds()):
        yield f"delay must be a timedelta or seconds, from 0 to a hundred years, not {delay!r}"
    if at is None:
        return
    if not isinstance(at, datetime):
        yield f"at must be a datetime with a time zone, not {at!r}"
    elif at.utcoffset() is None:
        yield f"at must have a time zone, and {at.isoformat()} has none; add one, e.g. at.replace(tzinfo=UTC)"
    elif not datetime.min.replace(tzinfo=UTC) <= at <= datetime.max.replace(tzinfo=UTC):
        yield f"at must lie within the years 1 to 9999 in UTC, not {at.isoformat()}; choose another time"


def _id_problems(job_id: Any) -> Iterator[str]:
    if job_id is None:
        return
    try:
        parsed = UUID(job_id)
    except (ValueError, TypeError, AttributeError):
        parsed = None
    if parsed is None or parsed.version != _UUID_VERSION or str(parsed) != job_id:
        yield f"job_id must be a UUIDv7 in small letters, not {job_id!r}; make one with holdfast.new_job_id()"


def _as_seconds(span: Any) -> Any:
    return span.total_seconds() if isinstance(span, timedelta) else span


def _as_backoff(backoff: Backoff | Seconds | None) -> Backoff:
    if backoff is None:
        return Exponential()
    seconds = _as_seconds(backoff)
    return Constant(seconds) if _is_number(seconds) else seconds


def _as_types(types: Any) -> tuple[type[BaseException], ...]:
    return tuple(types) if isinstance(types, tuple | list) else (types,)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_finite(value: Any) -> bool:
    return _is_number(value) and math.isfinite(value)
