"""What can be set, with its defaults."""

import os
import re
from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Protocol

import msgspec

from standfast.model.display import size_of

DEFAULT_URL = "sqlite:///standfast.db"

LONGEST_SPAN = 365 * 86_400.0
"""Seconds beyond which a span is a mistake; infinity would not even reach the worker."""

MOST_INCIDENTS = 10_000
"""Incidents that may be kept: whoever lists them reads them all."""

MOST_DEAD = 1_000_000
"""Dead jobs that may be kept where there is a bound: a store counts them up to it."""

MOST_MEGABYTES = 1_000_000

MOST_AT_ONCE = 10_000
"""Jobs that one process may run at a time; more is a mistake, for each may need a thread."""

MOST_JOBS = 10**12
"""More attempts than any process ends."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How an app and its workers behave. Spans are seconds.

    lease: how long a worker's claims stay valid without a beat; beat: how often it beats (a third of the lease
    unless given); grace: how long a stop waits for running jobs; hang_limit: how long a child may give no sign of
    life; look_ahead: how far ahead jobs are claimed; store_timeout: when a store call is given up; retry_for: how
    long an enqueue goes on trying while the store is away; timeout: how long a run of a task may take that says
    nothing of its own (None: for ever); max_wait: how long a due job may wait because others
    have a higher priority (None: for ever); keep_finished: how long completed and cancelled jobs are kept (None:
    for ever); keep_dead_for and keep_dead: how long dead jobs are kept, and how many, the newest (None: for ever,
    and all); recycle_age, recycle_jobs, recycle_memory: how old a worker process gets, how many attempts it ends
    and how many bytes it takes before another relieves it (None: no limit); drain_limit: how long it may then go on
    with what it has begun; name and release: of the app, to which the schedules it declares belong (None:
    MODULE:APP of its workers, and a release that is another where its schedules are); incidents_dir: where
    supervisors write incidents (None: the user's folder for such); keep_incidents, keep_incidents_for and
    keep_incidents_mb: how many of them are kept, for how long (None: for ever), and how many megabytes their
    folders may take; blocked_warning: how long a handler may block the event loop before a warning names it (None
    or 0: for ever); incident_locals: whether incidents show local variables, without what looks like a secret;
    files: the folder for the files that jobs save (None: beside a sqlite database; other stores need one), and
    files_limit: how many bytes one of them may have; metrics_dir: the
    folder in which workers inside web processes count for metrics (None: they do not); background_limit: how many
    pieces of work run in the background of a process at a time, and background_when_full: what becomes of more
    (wait, reject, enqueue).
    """

    url: str = DEFAULT_URL
    namespace: str | None = None
    lease: float = 15.0
    beat: float | None = None
    grace: float = 30.0
    hang_limit: float = 120.0
    look_ahead: float = 10.0
    safety_poll: float = 2.0
    store_timeout: float = 10.0
    retry_for: float = 0.0
    concurrency: int = 20
    timeout: float | None = None
    max_wait: float | None = 300.0
    keep_finished: float | None = 7 * 86_400.0
    keep_dead_for: float | None = None
    keep_dead: int | None = None
    recycle_age: float | None = None
    recycle_jobs: int | None = None
    recycle_memory: int | None = None
    drain_limit: float = 600.0
    name: str | None = None
    release: str | None = None
    incidents_dir: str | None = None
    keep_incidents: int = 200
    keep_incidents_for: float | None = 30 * 86_400.0
    keep_incidents_mb: int = 200
    blocked_warning: float | None = 0.2
    incident_locals: bool = False
    files: str | None = None
    files_limit: int = 1_000_000_000
    metrics_dir: str | None = None
    background_limit: int = 20
    background_when_full: str = "wait"

    @property
    def beat_every(self) -> float:
        """Seconds between two beats."""
        return self.lease / 3 if self.beat is None else self.beat

    @property
    def margin(self) -> float:
        """How long before the lease ends a worker stops trusting it."""
        return min(1.0, self.lease / 10)

    @property
    def lease_span(self) -> timedelta:
        """The lease as a span."""
        return timedelta(seconds=self.lease)


DEFAULTS = Settings()


# What each setting takes: how a value is read where it is written as text, and what is refused. Pure.

NONE_WORD = "none"
"""What a file or a variable says for None."""

_SPAN = re.compile(r"(?P<number>[+-]?(\d+(\.\d*)?|\.\d+)) ?(?P<unit>ms|s|m|h|d)?")
_UNITS = {None: 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_INTEGER = re.compile(r"[+-]?\d{1,18}")

SHORTEST_SPAN = 1e-6
"""Seconds above 0 that are still a span: less would be rounded to none."""

LEAST_SIZE, MOST_SIZE = 10**6, 10**15
"""Bytes: what takes less or more is a mistake."""


class UnfitError(ValueError):
    """A value that a setting cannot take; the message says what it must be."""


class Rule(Protocol):
    """What one setting takes."""

    @property
    def optional(self) -> bool:
        """Whether it may be None."""
        ...

    def parse(self, text: str) -> object:
        """Return what a text in a file or variable means. Raises UnfitError."""
        ...

    def check(self, value: object) -> object:
        """Return the value as it is kept. Raises UnfitError."""
        ...


class SpanRule(msgspec.Struct, frozen=True):
    """A span: seconds or a timedelta in code; in a file or variable seconds, or text such as 30s, 5m, 2h."""

    from_zero: bool = False
    optional: bool = False

    def parse(self, text: str) -> object:
        """Return the seconds that a text means."""
        found = _SPAN.fullmatch(text)
        if found is None:
            raise UnfitError(f"{self._must}; write e.g. 30, 30s, 5m or 2h")
        return float(found["number"]) * _UNITS[found["unit"]]

    def check(self, value: object) -> object:
        """Return the seconds."""
        seconds = value.total_seconds() if isinstance(value, timedelta) else value
        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            raise UnfitError(f"{self._must}; give a number or a timedelta")
        if not (0 <= seconds <= LONGEST_SPAN) or (seconds == 0 and not self.from_zero):
            raise UnfitError(self._must)
        if 0 < seconds < SHORTEST_SPAN:
            raise UnfitError(f"{self._must}, and not less than a microsecond")
        return float(seconds)

    @property
    def _must(self) -> str:
        range_ = "from 0 seconds to a year" if self.from_zero else "above 0 seconds and at most a year"
        return f"must be {range_}{', or none' if self.optional else ''}"


class CountRule(msgspec.Struct, frozen=True):
    """A whole number, 1 or more, up to what can be meant."""

    most: int
    optional: bool = False

    def parse(self, text: str) -> object:
        """Return the number that a text means."""
        if not _INTEGER.fullmatch(text):
            raise UnfitError(self._must)
        return int(text)

    def check(self, value: object) -> object:
        """Return the number."""
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= self.most:
            raise UnfitError(self._must)
        return value

    @property
    def _must(self) -> str:
        return f"must be a whole number from 1 to {self.most:,}{', or none' if self.optional else ''}"


class SizeRule(msgspec.Struct, frozen=True):
    """An amount of memory: bytes, or text such as 400MB or 1.5GiB, in code as well."""

    optional: bool = False

    def parse(self, text: str) -> object:
        """Return the bytes that a text means."""
        size = size_of(text)
        if size is None:
            raise UnfitError(self._must)
        return size

    def check(self, value: object) -> object:
        """Return the bytes."""
        size = self.parse(value) if isinstance(value, str) else value
        if isinstance(size, bool) or not isinstance(size, int) or not LEAST_SIZE <= size <= MOST_SIZE:
            raise UnfitError(self._must)
        return size

    @property
    def _must(self) -> str:
        return f"must be 1MB or more; write e.g. 400MB, 1.5GiB or bytes{', or none' if self.optional else ''}"


class FlagRule(msgspec.Struct, frozen=True):
    """Yes or no."""

    optional: bool = False

    def parse(self, text: str) -> object:
        """Return what a text means."""
        return {"true": True, "false": False}.get(text.lower(), text)

    def check(self, value: object) -> object:
        """Return the value."""
        if not isinstance(value, bool):
            raise UnfitError("must be true or false")
        return value


class TextRule(msgspec.Struct, frozen=True):
    """A text of a certain form; `must` says which."""

    form: re.Pattern[str]
    must: str
    optional: bool = True

    def parse(self, text: str) -> object:
        """Return the text."""
        return text

    def check(self, value: object) -> object:
        """Return the text."""
        if not isinstance(value, str) or not self.form.fullmatch(value):
            raise UnfitError(self.must)
        return value


class FolderRule(msgspec.Struct, frozen=True):
    """A folder, which is made where it is needed."""

    optional: bool = True

    def parse(self, text: str) -> object:
        """Return the text."""
        return text

    def check(self, value: object) -> object:
        """Return its path."""
        path = os.fspath(value) if isinstance(value, os.PathLike) else value
        if not isinstance(path, str) or not path or "\0" in path:
            raise UnfitError("must be the path of a folder, or none")
        return path


_URL = TextRule(re.compile(r"(?s).+"), "must be a text such as sqlite:///standfast.db", optional=False)
"""Which ones mean a store is not known here."""

_NAMESPACE = TextRule(
    re.compile(r"[a-z][a-z0-9_]{0,30}"),
    "must start with a letter and have at most 31 small letters, digits and underscores, or be none",
)
"""It becomes a part of table names."""

_LABEL = TextRule(
    re.compile(r"[\w.:+-]{1,100}"), "must be 1 to 100 letters, digits, '_', '.', ':', '+' or '-', or be none"
)
"""A name that people choose."""

_WHEN_FULL = TextRule(re.compile(r"wait|reject|enqueue"), "must be wait, reject or enqueue", optional=False)

RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "url": _URL,
        "namespace": _NAMESPACE,
        "lease": SpanRule(),
        "beat": SpanRule(optional=True),
        "grace": SpanRule(from_zero=True),
        "hang_limit": SpanRule(),
        "look_ahead": SpanRule(from_zero=True),
        "safety_poll": SpanRule(),
        "store_timeout": SpanRule(),
        "retry_for": SpanRule(from_zero=True),
        "concurrency": CountRule(MOST_AT_ONCE),
        "timeout": SpanRule(optional=True),
        "max_wait": SpanRule(optional=True),
        "keep_finished": SpanRule(optional=True),
        "keep_dead_for": SpanRule(optional=True),
        "keep_dead": CountRule(MOST_DEAD, optional=True),
        "recycle_age": SpanRule(optional=True),
        "recycle_jobs": CountRule(MOST_JOBS, optional=True),
        "recycle_memory": SizeRule(optional=True),
        "drain_limit": SpanRule(from_zero=True),
        "name": _LABEL,
        "release": _LABEL,
        "incidents_dir": FolderRule(),
        "keep_incidents": CountRule(MOST_INCIDENTS),
        "keep_incidents_for": SpanRule(optional=True),
        "keep_incidents_mb": CountRule(MOST_MEGABYTES),
        "blocked_warning": SpanRule(from_zero=True, optional=True),
        "incident_locals": FlagRule(),
        "files": FolderRule(),
        "files_limit": SizeRule(),
        "metrics_dir": FolderRule(),
        "background_limit": CountRule(MOST_AT_ONCE),
        "background_when_full": _WHEN_FULL,
    }
)
"""The rule of every setting, in the order of `Settings`."""
