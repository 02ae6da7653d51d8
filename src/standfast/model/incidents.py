"""An incident: something went wrong with a process, and this is what is known of it. Pure."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated

import msgspec

Aware = Annotated[datetime, msgspec.Meta(tz=True)]


class Trouble(StrEnum):
    """What went wrong."""

    CRASH = "crash"
    """A process ended though nobody asked it to."""
    HANG = "hang"
    """It gave no sign of life, and was ended."""
    OUT_OF_MEMORY = "out_of_memory"
    """It took more memory than it may have."""
    TIMEOUT = "timeout"
    """A handler in a process of its own was ended at its timeout."""
    STUCK = "stuck"
    """A handler cannot be stopped, and its process has to be replaced."""
    LOST = "lost"
    """A worker was heard of no more: its machine, or its supervisor with it, is gone."""
    EMPTIED = "emptied"
    """The store was emptied, or another one has taken its place, while a worker had jobs of it."""
    RETIRED = "retired"
    """Schedules were retired by one release of an app while workers of another lived that declare them."""
    EXCEPTION = "exception"
    """Something was raised where no attempt and no caller could hear of it."""
    UNREACHABLE = "unreachable"
    """A host that is kept alive did not answer, several times in a row."""
    SNAPSHOT = "snapshot"
    """Nothing: somebody asked for a picture of a living worker."""


class InvolvedJob(msgspec.Struct, frozen=True):
    """A job that was running. `attempt` counts from 1; `progress` is how far it had said to be."""

    job_id: str
    fence: int
    task: str = ""
    attempt: int = 0
    progress: str | None = None


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """One incident, or `count` of the same between `at` and `last_at`: a flood is folded by its `fingerprint`.

    `jobs` are the last that were involved, after `more_jobs` others that are not named. `folder` holds the
    evidence, which is that of the first time, as files, on `host`.
    """

    id: str
    trouble: Trouble
    summary: str
    at: Aware
    last_at: Aware
    count: int = 1
    host: str = ""
    supervisor: str = ""
    worker: str = ""
    pid: int = 0
    jobs: tuple[InvolvedJob, ...] = ()
    more_jobs: int = 0
    fingerprint: str = ""
    folder: str | None = None


class Evidence(msgspec.Struct, frozen=True):
    """What was found, as texts by name (`stacks`, `log`, `environment` …), secrets already removed."""

    parts: Mapping[str, str] = {}
