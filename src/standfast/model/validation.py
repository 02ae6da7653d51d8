"""Check and convert what users declare: options, names, spans, URLs. Errors name the field and what it must be."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal, TypeVar
from urllib.parse import SplitResult, urlsplit
from uuid import UUID

from standfast.errors import ConfigurationError
from standfast.model.backoff import Backoff, Constant, Exponential
from standfast.model.clock import EARLIEST, LATEST
from standfast.model.display import size_of
from standfast.model.job import OnConflict, OnLate

W = TypeVar("W", bound=StrEnum)

Seconds = float | timedelta
"""A span, as a number of seconds or a timedelta."""

OnConflictWord = Literal["return", "replace", "raise"]
OnLateWord = Literal["run", "expire"]
IsolationWord = Literal["none", "process"]

ExceptionTypes = type[BaseException] | tuple[type[BaseException], ...]


def as_word(kind: type[W], word: Any) -> W:
    """Return the member that a word means; any other word is kept, to be complained of."""
    return kind(word) if is_word(kind, word) else word


def as_span(span: Any) -> Any:
    """Return a number of seconds as a timedelta; anything else is kept, to be complained of."""
    try:
        return timedelta(seconds=span) if is_finite(span) else span
    except OverflowError:
        return span


def as_tags(tags: Any) -> Any:
    """Return tags without repetitions; one string is one tag. Anything else is kept, to be complained of."""
    try:
        return (tags,) if isinstance(tags, str) else tuple(dict.fromkeys(tags))
    except TypeError:
        return tags


def as_seconds(span: Any) -> Any:
    """Return a timedelta as seconds; anything else is kept, to be complained of."""
    return span.total_seconds() if isinstance(span, timedelta) else span


def as_bytes(size: Any) -> Any:
    """Return a size such as "512MB" or "1GiB" in bytes; anything else is kept, to be complained of."""
    meant = size_of(size) if isinstance(size, str) else None
    return size if meant is None else meant


def as_backoff(backoff: Backoff | Seconds | None) -> Backoff:
    """Return the backoff that is meant: a number is a constant wait of so many seconds."""
    if backoff is None:
        return Exponential()
    seconds = as_seconds(backoff)
    return Constant(seconds) if is_number(seconds) else seconds


def as_types(types: Any) -> tuple[type[BaseException], ...]:
    """Return one type, or several, as a tuple."""
    return tuple(types) if isinstance(types, tuple | list) else (types,)


def is_word(kind: type[StrEnum], word: Any) -> bool:
    """Tell whether this is one of the words."""
    return isinstance(word, str) and word in set(kind)


def is_int(value: Any) -> bool:
    """Tell whether this is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Tell whether this is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_finite(value: Any) -> bool:
    """Tell whether this is a number with an end."""
    return is_number(value) and math.isfinite(value)


MAX_DELAY = timedelta(days=36_525)
"""A hundred years: beyond it a delay is a mistake in units."""

PRIORITIES = range(-32768, 32768)

_NAME = re.compile(r"[\w.:-]{1,128}")
_QUEUE = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_MAX_ATTEMPTS = 32767
_LONGEST_KEY = 200
_MOST_TAGS = 20
_LONGEST_TAG = 100
_MOST_METADATA = 4096
_UUID_VERSION = 7


def refuse_any(problems: Iterable[str]) -> None:
    """Raise ConfigurationError that names all of them, if there are any."""
    message = "; ".join(problems)
    if message:
        raise ConfigurationError(message)


def routing_problems(queue: Any, priority: Any, max_attempts: Any) -> Iterator[str]:
    """Yield what is wrong with where, how soon and how often a job runs."""
    yield from queue_problems(queue)
    if not is_int(priority) or priority not in PRIORITIES:
        yield f"priority must be an integer from -32768 to 32767, greater first, not {priority!r}"
    if not is_int(max_attempts) or not 1 <= max_attempts <= _MAX_ATTEMPTS:
        yield f"max_attempts must be an integer from 1 (no retries) to {_MAX_ATTEMPTS}, not {max_attempts!r}"


def name_problems(what: str, name: Any) -> Iterator[str]:
    """Yield what is wrong with the name of a task, a schedule or an objective."""
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        article = "an" if what.startswith("o") else "a"
        yield f"{article} {what}'s name must be 1 to 128 letters, digits, '_', '.', ':' or '-', not {name!r:.80}"


def queue_problems(queue: Any) -> Iterator[str]:
    """Yield what is wrong with the name of a queue."""
    if not (isinstance(queue, str) and _QUEUE.fullmatch(queue)):
        yield f"queue must be 1 to 64 letters, digits, '_', '.' or '-', not {queue!r}"


def time_problems(delay: Any, at: Any) -> Iterator[str]:
    """Yield what is wrong with when a job is to run."""
    if delay is not None and at is not None:
        yield "delay and at are both given; keep one"
    seconds = as_seconds(delay)
    if seconds is not None and not (is_finite(seconds) and 0 <= seconds <= MAX_DELAY.total_seconds()):
        yield f"delay must be a timedelta or seconds, from 0 to a hundred years, not {delay!r}"
    if at is None:
        return
    if not isinstance(at, datetime):
        yield f"at must be a datetime with a time zone, not {at!r}"
    elif at.utcoffset() is None:
        yield f"at must have a time zone, and {at.isoformat()} has none; add one, e.g. at.replace(tzinfo=UTC)"
    else:
        yield from calendar_problems("at", at)


def calendar_problems(name: str, moment: datetime) -> Iterator[str]:
    """Yield what is wrong with a moment at the ends of the calendar."""
    if not EARLIEST <= moment <= LATEST:
        said = f"not {moment.isoformat()}; choose another time"
        yield f"{name} must lie within the years 1 to 9999 in UTC, the last day excepted, {said}"


def sum_problems(at: datetime | None, start_within: timedelta | None) -> Iterator[str]:
    """Yield what is wrong with the last moment at which a job should start."""
    if at is not None and start_within is not None and start_within > LATEST - at:
        yield (
            f"at + start_within must not lie after {LATEST:%Y-%m-%d} in UTC, and is {_said(start_within)} after"
            f" {at.isoformat()}; choose an earlier at or a shorter start_within"
        )


def id_problems(job_id: Any) -> Iterator[str]:
    """Yield what is wrong with an id of the caller's own."""
    if job_id is None:
        return
    try:
        parsed = UUID(job_id)
    except (ValueError, TypeError, AttributeError):
        parsed = None
    if parsed is None or parsed.version != _UUID_VERSION or str(parsed) != job_id:
        yield f"job_id must be a UUIDv7 in small letters, not {job_id!r}; make one with standfast.new_job_id()"


def key_problems(key: Any, on_conflict: Any, keep_key: Any) -> Iterator[str]:
    """Yield what is wrong with a key and what is said about it."""
    if key is not None and not (isinstance(key, str) and 1 <= len(key) <= _LONGEST_KEY and key.isprintable()):
        yield f"key must be 1 to {_LONGEST_KEY} printable characters, not {key!r:.80}"
    if not is_word(OnConflict, on_conflict):
        yield f"on_conflict must be {_words(OnConflict)}, not {on_conflict!r}"
    if key is None and (on_conflict != OnConflict.RETURN or keep_key is not None):
        yield "on_conflict and keep_key are about a key, and none is given; add key="
    yield from span_problems("keep_key", as_span(keep_key))


def late_problems(start_within: Any, on_late: Any) -> Iterator[str]:
    """Yield what is wrong with how late a job may start."""
    yield from span_problems("start_within", start_within)
    if not is_word(OnLate, on_late):
        yield f"on_late must be {_words(OnLate)}, not {on_late!r}"


def span_problems(name: str, span: Any) -> Iterator[str]:
    """Yield what is wrong with a span, unless it is None."""
    if span is not None and not (isinstance(span, timedelta) and timedelta() < span <= MAX_DELAY):
        yield f"{name} must be a timedelta or seconds, above 0 and at most a hundred years, not {_said(span)}"


def tag_problems(tags: Any) -> Iterator[str]:
    """Yield what is wrong with tags."""
    if not isinstance(tags, Sequence):
        yield f"tags must be texts, not {tags!r:.80}"
        return
    if len(tags) > _MOST_TAGS:
        yield f"a job has at most {_MOST_TAGS} tags, not {len(tags)}"
    for tag in tags:
        if not (isinstance(tag, str) and 1 <= len(tag) <= _LONGEST_TAG and tag.isprintable()):
            yield f"a tag must be 1 to {_LONGEST_TAG} printable characters, not {tag!r:.80}"


def metadata_problems(metadata: Any) -> Iterator[str]:
    """Yield what is wrong with metadata."""
    if metadata is None:
        return
    if not isinstance(metadata, Mapping):
        yield f"metadata must map names to texts, not be {metadata!r:.80}"
        return
    for name, value in metadata.items():
        if not (isinstance(name, str) and name and name.isprintable() and _is_text(value)):
            said = f"{name!r:.80}: {value!r:.80}"
            yield f"metadata must map names to texts without NUL, and has {said}; turn it into such a str"
    if sum(len(str(name)) + len(str(value)) for name, value in metadata.items()) > _MOST_METADATA:
        yield f"metadata must not exceed {_MOST_METADATA:,} characters; keep the data elsewhere and name it here"


def patience_problems(retry_for: Any, tx: Any) -> Iterator[str]:
    """Yield what is wrong with how long to go on trying while the store is away."""
    seconds = as_seconds(retry_for)
    if seconds is not None and not (is_finite(seconds) and 0 <= seconds <= MAX_DELAY.total_seconds()):
        yield f"retry_for must be a timedelta or seconds, from 0 to a hundred years, not {retry_for!r}"
    if seconds is not None and tx is not None:
        yield "retry_for and tx are both given; keep one: after a failure your transaction has to begin anew"


def _is_text(value: Any) -> bool:
    """Tell whether this is a text that every store can write: one with NUL or a lone surrogate is not."""
    return isinstance(value, str) and "\0" not in value and value.encode(errors="ignore").decode() == value


def _words(kind: type[StrEnum]) -> str:
    return " or ".join(repr(word.value) for word in kind)


def _said(span: Any) -> str:
    return f"{span.total_seconds():g} s" if isinstance(span, timedelta) else repr(span)


_NUMBER = re.compile(r"\d+(\.\d+)?|\.\d+")
_PIECE = re.compile(rf"(?P<number>{_NUMBER.pattern}) ?(?P<unit>ms|s|min|m|h|d|w) ?")
_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}


def read_span(text: str) -> timedelta:
    """Return what a text means as a span. Raises ValueError that says how to write one."""
    written = text.strip()
    if _NUMBER.fullmatch(written):
        written += "s"
    seconds, position = 0.0, 0
    while (piece := _PIECE.match(written, position)) is not None:
        seconds += float(piece["number"]) * _SECONDS[piece["unit"]]
        position = piece.end()
    problem = None
    if not written or position < len(written):
        problem = "no span"
    elif seconds > MAX_DELAY.total_seconds():
        problem = "more than a hundred years"
    if problem is not None:
        raise ValueError(f"'{text}' is {problem}; write e.g. 30s, 15m, 1h30m or 2d")
    return timedelta(seconds=seconds)


EXAMPLE = "https://host.example/path"

PORTS = {"http": 80, "https": 443}


def http_url(text: str, what: str, credentials: str, example: str = EXAMPLE) -> SplitResult:
    """Return the parts of a URL. Raises ConfigurationError, which repeats none of it, as it may hold a secret.

    `what` is its name for people, `credentials` where these belong instead, `example` one that is right.
    """
    try:
        url = urlsplit(text)
        host, _ = url.hostname, url.port
    except ValueError:  # its words repeat what stands in the place of a port, which may be half a password
        raise ConfigurationError(f"{what} cannot be read: its host or its port is none") from None
    if url.scheme not in PORTS or not host or not text.isascii() or not text.isprintable() or " " in text:
        raise ConfigurationError(f"{what} must look like {example}, all of it in ASCII")
    if url.username is not None or url.password is not None:
        raise ConfigurationError(f"{what} must have no user and no password in it: {credentials}")
    return url


def port_of(url: SplitResult) -> int:
    """Return the port of a URL that was checked."""
    return url.port or PORTS[url.scheme]
