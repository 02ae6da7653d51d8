"""What can be set: each setting with its default, its meaning, and what it takes."""

import os
import re
from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType, UnionType
from typing import Annotated, TypedDict

import msgspec

from standfast.model.display import size_of
from standfast.model.validation import Seconds, read_span

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


NONE_WORD = "none"
"""What a file or a variable says for None."""

_INTEGER = re.compile(r"[+-]?\d{1,18}")

SHORTEST_SPAN = 1e-6
"""Seconds above 0 that are still a span: less would be rounded to none."""

LEAST_SIZE, MOST_SIZE = 10**6, 10**15
"""Bytes: what takes less or more is a mistake."""


class UnfitError(ValueError):
    """A value that a setting cannot take; the message says what it must be."""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """What a setting takes, and whether it may be None."""

    optional: bool = False

    def parse(self, text: str) -> object:
        """Return what a text in a file or variable means. Raises UnfitError."""
        return text

    def check(self, value: object) -> object:
        """Return the value as it is kept. Raises UnfitError."""
        raise NotImplementedError


class SpanRule(Rule, frozen=True):
    """A span: seconds or a timedelta in code; in a file or variable seconds, or text such as 30s, 5m, 2h."""

    from_zero: bool = False

    def parse(self, text: str) -> object:
        """Return what a text means."""
        try:
            return read_span(text).total_seconds()
        except ValueError:
            raise UnfitError(f"{self._must}; write e.g. 30, 30s, 5m or 2h") from None

    def check(self, value: object) -> object:
        """Return the value as it is kept."""
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


class CountRule(Rule, frozen=True):
    """A whole number, 1 or more, up to what can be meant."""

    most: int

    def parse(self, text: str) -> object:
        """Return what a text means."""
        if not _INTEGER.fullmatch(text):
            raise UnfitError(self._must)
        return int(text)

    def check(self, value: object) -> object:
        """Return the value as it is kept."""
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= self.most:
            raise UnfitError(self._must)
        return value

    @property
    def _must(self) -> str:
        return f"must be a whole number from 1 to {self.most:,}{', or none' if self.optional else ''}"


class SizeRule(Rule, frozen=True):
    """An amount of memory: bytes, or text such as 400MB or 1.5GiB, in code as well."""

    def parse(self, text: str) -> object:
        """Return what a text means."""
        size = size_of(text)
        if size is None:
            raise UnfitError(self._must)
        return size

    def check(self, value: object) -> object:
        """Return the value as it is kept."""
        size = self.parse(value) if isinstance(value, str) else value
        if isinstance(size, bool) or not isinstance(size, int) or not LEAST_SIZE <= size <= MOST_SIZE:
            raise UnfitError(self._must)
        return size

    @property
    def _must(self) -> str:
        return f"must be 1MB or more; write e.g. 400MB, 1.5GiB or bytes{', or none' if self.optional else ''}"


class FlagRule(Rule, frozen=True):
    """Yes or no."""

    def parse(self, text: str) -> object:
        """Return what a text means."""
        return {"true": True, "false": False}.get(text.lower(), text)

    def check(self, value: object) -> object:
        """Return the value as it is kept."""
        if not isinstance(value, bool):
            raise UnfitError("must be true or false")
        return value


class TextRule(Rule, frozen=True):
    """A text of a certain form; `must` says which."""

    form: re.Pattern[str]
    must: str

    def check(self, value: object) -> object:
        """Return the value as it is kept."""
        if not isinstance(value, str) or not self.form.fullmatch(value):
            raise UnfitError(self.must)
        return value


class FolderRule(Rule, frozen=True):
    """A folder, which is made where it is needed."""

    def check(self, value: object) -> object:
        """Return the value as it is kept."""
        path = os.fspath(value) if isinstance(value, os.PathLike) else value
        if not isinstance(path, str) or not path or "\0" in path:
            raise UnfitError("must be the path of a folder, or none")
        return path


_URL = TextRule(re.compile(r"(?s).+"), "must be a text such as sqlite:///standfast.db")
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

_WHEN_FULL = TextRule(re.compile(r"wait|reject|enqueue"), "must be wait, reject or enqueue")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How an app and its workers behave. Spans are seconds."""

    url: Annotated[str, _URL] = DEFAULT_URL
    """The store: a file, or a server of PostgreSQL or Redis."""
    namespace: Annotated[str | None, _NAMESPACE] = None
    """A tenant inside the store."""
    lease: Annotated[float, SpanRule()] = 15.0
    """How long a worker's claims stay valid without a beat."""
    beat: Annotated[float | None, SpanRule()] = None
    """How often a worker beats (None: three times in a lease)."""
    grace: Annotated[float, SpanRule(from_zero=True)] = 30.0
    """How long a stop waits for running jobs."""
    hang_limit: Annotated[float, SpanRule()] = 120.0
    """How long a child may give no sign of life."""
    look_ahead: Annotated[float, SpanRule(from_zero=True)] = 10.0
    """How far ahead of their time jobs are claimed."""
    safety_poll: Annotated[float, SpanRule()] = 2.0
    """The longest time between two looks at the store."""
    store_timeout: Annotated[float, SpanRule()] = 10.0
    """When a call of the store is given up."""
    retry_for: Annotated[float, SpanRule(from_zero=True)] = 0.0
    """How long an enqueue is retried while the store is away."""
    concurrency: Annotated[int, CountRule(MOST_AT_ONCE)] = 20
    """How many jobs a worker process runs at a time."""
    timeout: Annotated[float | None, SpanRule()] = None
    """How long a task without a timeout may run (None: for ever)."""
    max_wait: Annotated[float | None, SpanRule()] = 300.0
    """How long jobs of higher priority may delay a due job (None: for ever)."""
    keep_finished: Annotated[float | None, SpanRule()] = 7 * 86_400.0
    """How long completed and cancelled jobs are kept (None: for ever)."""
    keep_dead_for: Annotated[float | None, SpanRule()] = None
    """How long dead jobs are kept (None: for ever)."""
    keep_dead: Annotated[int | None, CountRule(MOST_DEAD)] = None
    """How many dead jobs are kept, the newest (None: all)."""
    recycle_age: Annotated[float | None, SpanRule()] = None
    """The age at which a worker process is replaced (None: never)."""
    recycle_jobs: Annotated[int | None, CountRule(MOST_JOBS)] = None
    """The number of attempts after which it is replaced (None: no limit)."""
    recycle_memory: Annotated[int | None, SizeRule()] = None
    """The bytes of memory at which it is replaced (None: no limit)."""
    drain_limit: Annotated[float, SpanRule(from_zero=True)] = 600.0
    """How long it may finish its jobs then."""
    name: Annotated[str | None, _LABEL] = None
    """The app's, to which its schedules belong (None: MODULE:APP of its workers)."""
    release: Annotated[str | None, _LABEL] = None
    """The app's: an older one undoes nothing of a newer (None: another for each set of schedules)."""
    incidents_dir: Annotated[str | None, FolderRule()] = None
    """Where supervisors write incidents (None: in the user's folder for state)."""
    keep_incidents: Annotated[int, CountRule(MOST_INCIDENTS)] = 200
    """How many incidents are kept."""
    keep_incidents_for: Annotated[float | None, SpanRule()] = 30 * 86_400.0
    """How long they are kept (None: for ever)."""
    keep_incidents_mb: Annotated[int, CountRule(MOST_MEGABYTES)] = 200
    """How many megabytes their folders may take."""
    blocked_warning: Annotated[float | None, SpanRule(from_zero=True)] = 0.2
    """How long a handler may block the event loop before a warning (None or 0: for ever)."""
    incident_locals: Annotated[bool, FlagRule()] = False
    """Whether incidents show local variables, without what looks like a secret."""
    files: Annotated[str | None, FolderRule()] = None
    """The folder for files that jobs save (None: beside a SQLite database; other stores need one)."""
    files_limit: Annotated[int, SizeRule()] = 1_000_000_000
    """How many bytes such a file may have."""
    metrics_dir: Annotated[str | None, FolderRule()] = None
    """Where workers inside web processes count for metrics (None: they do not)."""
    background_limit: Annotated[int, CountRule(MOST_AT_ONCE)] = 20
    """How many pieces of background work a process runs at a time."""
    background_when_full: Annotated[str, _WHEN_FULL] = "wait"
    """What becomes of more: wait, reject or enqueue."""

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

RULES: Mapping[str, Rule] = MappingProxyType(
    {
        name: msgspec.structs.replace(kind.__metadata__[0], optional=isinstance(kind.__origin__, UnionType))
        for name, kind in Settings.__annotations__.items()
    }
)
"""The rule of every setting, in the order of `Settings`."""


class SettingArguments(TypedDict, total=False):
    """What `Standfast(url, ...)` takes: settings, as people write them in code."""

    namespace: str | None
    lease: Seconds | None
    beat: Seconds | None
    grace: Seconds | None
    hang_limit: Seconds | None
    look_ahead: Seconds | None
    safety_poll: Seconds | None
    store_timeout: Seconds | None
    retry_for: Seconds | None
    concurrency: int | None
    timeout: Seconds | None
    max_wait: Seconds | None
    keep_finished: Seconds | None
    keep_dead_for: Seconds | None
    keep_dead: int | None
    recycle_age: Seconds | None
    recycle_jobs: int | None
    recycle_memory: int | str | None
    drain_limit: Seconds | None
    name: str | None
    release: str | None
    incidents_dir: str | os.PathLike[str] | None
    keep_incidents: int | None
    keep_incidents_for: Seconds | None
    keep_incidents_mb: int | None
    blocked_warning: Seconds | None
    incident_locals: bool | None
    files: str | os.PathLike[str] | None
    files_limit: int | str | None
    metrics_dir: str | os.PathLike[str] | None
    background_limit: int | None
    background_when_full: str | None
