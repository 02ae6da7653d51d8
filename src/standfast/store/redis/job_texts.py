"""How this store writes what it never changes: jobs as they were accepted, and plain completions.

A script puts its own words in front and hands the rest on as it is; so neither payloads nor results are ever read
by the server, and may be any bytes.
"""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from standfast.core.job import Ending, NewJob, OnLate
from standfast.store.redis.packing import pack
from standfast.store.times import span_to_micros, to_micros, to_micros_or_none

_ARRIVAL = 15
_HEAD = 31
_BODY = 35

_NO_METADATA: Mapping[str, str] = MappingProxyType({})


class Accepted(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A job as it was accepted, but for its payload. A short one is written without what is at its default."""

    id: str
    task: str
    version: int
    queue: str
    priority: int
    max_attempts: int
    run_at: int | None = None
    delay: int = 0
    key: str | None = None
    keep_key: int = 0
    start_within: int | None = None
    on_late: OnLate = OnLate.RUN
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, str] = _NO_METADATA

    def first_run_at(self, created_at: int) -> int:
        """Return the first time it was to run at."""
        return created_at + self.delay if self.run_at is None else self.run_at

    def start_by(self, created_at: int) -> int | None:
        """Return when it should start for the first time at the latest."""
        return None if self.start_within is None else self.first_run_at(created_at) + self.start_within


_decode = msgspec.msgpack.Decoder(Accepted).decode


def write_job(job: NewJob) -> bytes:
    """Return what is stored of a job: the length of what is said of it, that, and the payload."""
    if is_short(job):
        return write_short_job(job)
    said = pack(
        (
            job.id,
            job.task,
            job.version,
            job.queue,
            job.priority,
            job.max_attempts,
            to_micros_or_none(job.run_at),
            span_to_micros(job.delay),
            job.key,
            span_to_micros(job.keep_key),
            None if job.start_within is None else span_to_micros(job.start_within),
            job.on_late.value,
            job.tags,
            job.metadata,
        )
    )
    return len(said).to_bytes(4) + said + job.payload


def write_short_job(job: NewJob) -> bytes:
    """Return the same of a job that is known to be short."""
    said = pack((job.id, job.task, job.version, job.queue, job.priority, job.max_attempts))
    return len(said).to_bytes(4) + said + job.payload


def is_short(job: NewJob) -> bool:
    """Tell whether a job is plain and due now, so that little is to be said of it."""
    return job.run_at is None and not job.delay and job.is_plain


def read_job(text: bytes) -> tuple[Accepted, bytes, int]:
    """Return the job that a `job:` key holds, its payload, and when it was accepted."""
    end = _BODY + int.from_bytes(text[_HEAD:_BODY])
    return _decode(text[_BODY:end]), text[end:], int(text[_ARRIVAL:_HEAD])


_NOTHING = pack(None)
_NO_RESULT = pack(False)
_A_RESULT = pack(True)


def write_completion(ending: Ending) -> bytes:
    """Return what is stored of a plain completion: started_at, how long the result is kept, and the result."""
    started_at = _NOTHING if ending.started_at is None else pack(to_micros(ending.started_at))
    keep = _NOTHING if ending.keep_result is None else pack(span_to_micros(ending.keep_result))
    return started_at + keep + (_NO_RESULT if ending.result is None else _A_RESULT + ending.result)
