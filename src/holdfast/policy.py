"""How the jobs of a task are to be run, and how one job may differ: checked where it is declared, all at once.

Public parameters take seconds or timedeltas; what is kept here has one form only.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Literal, TypeVar
from uuid import UUID

from holdfast.core.job import OnConflict, OnLate
from holdfast.core.retry import Backoff, Constant, Exponential
from holdfast.errors import ConfigurationError

W = TypeVar("W", bound=StrEnum)

Seconds = float | timedelta
"""A span, as a number of seconds or a timedelta."""

OnConflictWord = Literal["return", "replace", "raise"]
OnLateWord = Literal["run", "expire"]

ExceptionTypes = type[BaseException] | tuple[type[BaseException], ...]

MAX_DELAY = timedelta(days=36_525)
"""A hundred years: beyond it a delay is a mistake in units."""

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_PRIORITIES = range(-32768, 32768)
_MAX_ATTEMPTS = 32767
_LONGEST_KEY = 200
_MOST_TAGS = 20
_LONGEST_TAG = 100
_MOST_METADATA = 4096
_UUID_VERSION = 7


@dataclass(frozen=True, slots=True)
class Policy:
    """How the jobs of a task are run.

    `timeout` is in seconds. `discard_on` wins over `retry_on`; with `retry_on` None every other exception is
    retried, else those outside it are not and the job is dead at once. `version` is that of the payload: raise it
    when the parameters change so that older workers leave newer jobs alone. `start_within`: the first start should
    come so soon after a job's time, else `on_late` decides. `keep_result`: for how long a result is kept.
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
        yield from _late_problems(self.start_within, self.on_late)
        yield from _tag_problems(self.tags)
        yield from _span_problems("keep_result", self.keep_result)


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
    start_within: Seconds | None = None,
    on_late: OnLateWord = "run",
    tags: Iterable[str] = (),
    keep_result: Seconds | None = None,
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
        start_within=_as_span(start_within),
        on_late=_as_word(OnLate, on_late),
        tags=_as_tags(tags),
        keep_result=_as_span(keep_result),
    )


@dataclass(frozen=True, slots=True)
class Options:
    """How one job differs from the policy of its task; None means as the policy says. `tx` is the caller's own."""

    delay: timedelta = timedelta()
    run_at: datetime | None = None
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
    tx: Any = None


def declare_options(
    *,
    delay: Seconds | None = None,
    at: datetime | None = None,
    priority: int | None = None,
    queue: str | None = None,
    max_attempts: int | None = None,
    job_id: str | None = None,
    key: str | None = None,
    on_conflict: OnConflictWord = "return",
    keep_key: Seconds | None = None,
    start_within: Seconds | None = None,
    on_late: OnLateWord | None = None,
    tags: Iterable[str] = (),
    metadata: Mapping[str, str] | None = None,
    tx: Any = None,
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
        *_key_problems(key, on_conflict, keep_key),
        *_late_problems(_as_span(start_within), "run" if on_late is None else on_late),
        *_tag_problems(_as_tags(tags)),
        *_metadata_problems(metadata),
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
        key=key,
        on_conflict=OnConflict(on_conflict),
        keep_key=_as_span(keep_key) or timedelta(),
        start_within=_as_span(start_within),
        on_late=None if on_late is None else OnLate(on_late),
        tags=_as_tags(tags),
        metadata=dict(metadata or {}),
        tx=tx,
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


def _key_problems(key: Any, on_conflict: Any, keep_key: Any) -> Iterator[str]:
    if key is not None and not (isinstance(key, str) and 1 <= len(key) <= _LONGEST_KEY and key.isprintable()):
        yield f"key must be 1 to {_LONGEST_KEY} printable characters, not {key!r:.80}"
    if not _is_word(OnConflict, on_conflict):
        yield f"on_conflict must be {_words(OnConflict)}, not {on_conflict!r}"
    if key is None and (on_conflict != OnConflict.RETURN or keep_key is not None):
        yield "on_conflict and keep_key are about a key, and none is given; add key="
    yield from _span_problems("keep_key", _as_span(keep_key))


def _late_problems(start_within: Any, on_late: Any) -> Iterator[str]:
    yield from _span_problems("start_within", start_within)
    if not _is_word(OnLate, on_late):
        yield f"on_late must be {_words(OnLate)}, not {on_late!r}"


def _span_problems(name: str, span: Any) -> Iterator[str]:
    if span is not None and not (isinstance(span, timedelta) and timedelta() < span <= MAX_DELAY):
        yield f"{name} must be a timedelta or seconds, above 0 and at most a hundred years, not {_said(span)}"


def _tag_problems(tags: Any) -> Iterator[str]:
    if not isinstance(tags, Sequence):
        yield f"tags must be texts, not {tags!r:.80}"
        return
    if len(tags) > _MOST_TAGS:
        yield f"a job has at most {_MOST_TAGS} tags, not {len(tags)}"
    for tag in tags:
        if not (isinstance(tag, str) and 1 <= len(tag) <= _LONGEST_TAG and tag.isprintable()):
            yield f"a tag must be 1 to {_LONGEST_TAG} printable characters, not {tag!r:.80}"


def _metadata_problems(metadata: Any) -> Iterator[str]:
    if metadata is None:
        return
    if not isinstance(metadata, Mapping):
        yield f"metadata must map names to texts, not be {metadata!r:.80}"
        return
    for name, value in metadata.items():
        if not (isinstance(name, str) and name and name.isprintable() and _is_text(value)):
            yield f"metadata must map names to texts, and has {name!r:.80}: {value!r:.80}; turn it into str"
    if sum(len(str(name)) + len(str(value)) for name, value in metadata.items()) > _MOST_METADATA:
        yield f"metadata must not exceed {_MOST_METADATA:,} characters; keep the data elsewhere and name it here"


def _is_text(value: Any) -> bool:
    """Tell whether this is a text that can be written: one with a lone surrogate cannot."""
    return isinstance(value, str) and value.encode(errors="ignore").decode() == value


def _is_word(kind: type[StrEnum], word: Any) -> bool:
    return isinstance(word, str) and word in set(kind)


def _words(kind: type[StrEnum]) -> str:
    return " or ".join(repr(word.value) for word in kind)


def _said(span: Any) -> str:
    return f"{span.total_seconds():g} s" if isinstance(span, timedelta) else repr(span)


def _as_word(kind: type[W], word: Any) -> W:
    """Return the member that a word means; any other word is kept, to be complained of."""
    return kind(word) if _is_word(kind, word) else word


def _as_span(span: Any) -> Any:
    """Return a number of seconds as a timedelta; anything else is kept, to be complained of."""
    try:
        return timedelta(seconds=span) if _is_finite(span) else span
    except OverflowError:
        return span


def _as_tags(tags: Any) -> Any:
    """Return tags without repetitions; one string is one tag. Anything else is kept, to be complained of."""
    try:
        return (tags,) if isinstance(tags, str) else tuple(dict.fromkeys(tags))
    except TypeError:
        return tags


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
