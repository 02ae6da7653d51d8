"""Jobs, memos and records as Redis keeps them.

How what a verb says is packed for a script.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

import msgspec

from standfast.errors import ValueNotStoredError
from standfast.model.crash import group_limit
from standfast.model.job import (
    NO_TASK,
    Attempt,
    Claim,
    ClaimRef,
    Ending,
    Glance,
    Job,
    KnownTask,
    NewJob,
    OnLate,
    Progress,
)
from standfast.model.memos import Memo
from standfast.model.records import Change, Decision, Fire, FireCause, Kind, Record
from standfast.model.states import State
from standfast.stores.rows import (
    DAMAGES,
    from_micros,
    from_micros_or_none,
    span_from_micros,
    span_to_micros,
    to_micros,
    to_micros_or_none,
    unreadable_claim,
    unreadable_job,
)
from standfast.stores.values import Turn, Worker, WorkerInfo, read_vitals

_encode = msgspec.msgpack.Encoder().encode


def pack(value: Any) -> bytes:
    """Return a value as the MessagePack that scripts read. Bytes are not for it: the server's reader knows none."""
    try:
        return _encode(value)
    except (OverflowError, UnicodeEncodeError) as error:
        # Values that Python can hold and this form cannot: integers over 64 bits, lone surrogates.
        raise ValueNotStoredError(f"Redis cannot store a value of this call ({error})") from error


# How this store writes memos: scripts compare the stamp in front, and read no body.

_DIGITS = 15
_STAMP = 2 * _DIGITS


def write_memo(body: bytes, fence: int = 0, number: int = 0) -> bytes:
    """Return what is stored of a memo; those of others, signals, come before all of the job's own."""
    return b"%0*d%0*d" % (_DIGITS, fence, _DIGITS, number) + body


def read_memo(name: bytes, text: bytes) -> Memo:
    """Return the memo that the hash of its job holds."""
    return Memo(name.decode(), text[_STAMP:])


# How this store writes what it never changes: jobs as they were accepted, and plain completions.
#
# A script puts its own words in front and hands the rest on as it is; so neither payloads nor results are ever read
# by the server, and may be any bytes.

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


# How this store writes records and fires: scripts put in front what they decide, and read no body and no note.

_VERSION = 15
_SAID = 19
_DECIDED_AT = 16


class _FireSaid(msgspec.Struct, array_like=True, frozen=True):
    planned: int
    decision: Decision
    count: int
    until: int | None
    job_id: str | None
    note: str | None


_decode_record = msgspec.msgpack.Decoder(tuple[str, int | None]).decode
_decode_fire = msgspec.msgpack.Decoder(_FireSaid).decode


def write_record(change: Change) -> bytes:
    """Return what is stored of a record as a change makes it, but for its version; nothing of one to forget."""
    if change.body is None:
        return b""
    said = pack((change.token, to_micros_or_none(change.due_at)))
    return len(said).to_bytes(4) + said + change.body


def write_fire(fire: Fire) -> bytes:
    """Return what is stored of a fire, but for its cause and when it was decided."""
    times = (to_micros(fire.planned), to_micros_or_none(fire.until))
    return pack((times[0], fire.decision.value, fire.count, times[1], fire.job_id, fire.note))


def read_record(kind: Kind, name: bytes, text: bytes) -> Record:
    """Return the record that the hash of its kind holds; of one that cannot be read the name, and no body."""
    try:
        return _read_record(kind, name, text)
    except DAMAGES:
        version = text[:_VERSION].decode(errors="replace")
        return Record(kind, name.decode(), int(version) if version.isdecimal() else 1, None, b"", "")


def _read_record(kind: Kind, name: bytes, text: bytes) -> Record:
    end = _SAID + int.from_bytes(text[_VERSION:_SAID])
    token, due_at = _decode_record(text[_SAID:end])
    return Record(kind, name.decode(), int(text[:_VERSION]), from_micros_or_none(due_at), text[end:], token)


def read_fire(schedule: bytes, text: bytes) -> Fire:
    """Return the fire that the list of its schedule holds."""
    cause, _, rest = text.partition(b":")
    said = _decode_fire(rest[_DECIDED_AT:])
    return Fire(
        schedule=schedule.decode(),
        planned=from_micros(said.planned),
        decision=said.decision,
        cause=FireCause(cause.decode()),
        count=said.count,
        until=from_micros_or_none(said.until),
        job_id=said.job_id,
        note=said.note,
        decided_at=from_micros(int(rest[:_DECIDED_AT])),
    )


def latest(fires: list[Fire], limit: int) -> tuple[Fire, ...]:
    """Return so many of the latest fires, the latest first, and all others of the same time as the last of them."""
    fires.sort(key=_place, reverse=True)
    if len(fires) <= limit:
        return tuple(fires)
    last = fires[limit - 1].planned
    return tuple(fire for fire in fires if fire.planned >= last)


def _place(fire: Fire) -> tuple[datetime, str, FireCause]:
    return fire.planned, fire.schedule, fire.cause


# From the replies of scripts to the values that others see.

Row = Sequence[Any]


class _Reported(msgspec.Struct, array_like=True, frozen=True):
    """Progress as it is stored. A note is written only where there is one."""

    done: float
    total: float | None
    note: str | None = None


_decode_progress = msgspec.msgpack.Decoder(_Reported).decode


class _Registration(msgspec.Struct, array_like=True, frozen=True):
    """What a worker says of itself."""

    id: str
    supervisor: str
    host: str
    pid: int
    queues: tuple[str, ...] | None
    concurrency: int


_decode_registration = msgspec.msgpack.Decoder(_Registration).decode


def write_progress(progress: Progress) -> bytes:
    """Return progress as it is stored."""
    note = () if progress.note is None else (progress.note,)
    return pack((progress.done, progress.total, *note))


def write_registration(worker: WorkerInfo) -> bytes:
    """Return what is stored of what a worker says of itself, but for its lease."""
    return pack((worker.id, worker.supervisor, worker.host, worker.pid, worker.queues, worker.concurrency))


def group_of(queues: Sequence[str] | None) -> str:
    """Return the name that workers have in common which serve the same queues, in whatever order."""
    return "*" if queues is None else ",".join(f"{len(queue)}:{queue}" for queue in sorted(set(queues)))


def to_turn(rank: int, of: int, polled_at: bytes | None) -> Turn:
    """Return a worker's place among its like."""
    return Turn(rank, of, None if polled_at is None else to_time(polled_at))


def to_time(score: bytes) -> datetime:
    """Return the time that a score stands for. One beyond the year 2255 is not exact, as doubles are not."""
    return from_micros(int(float(score)))


_FRESH = (1, 0, 0, b"")


def to_claims(texts: Sequence[bytes], lives: Sequence[Any]) -> tuple[Claim, ...]:
    """Return the claims of jobs; `lives` are the numbers of those that are not fresh, each after its place.

    Raises one of DAMAGES where a job cannot be read.
    """
    changed = {lives[at]: lives[at + 1 : at + 5] for at in range(0, len(lives), 5)}
    times: dict[int, datetime] = {}  # most jobs of one enqueue have one time
    claims: list[Claim] = []
    for place, text in enumerate(texts, 1):
        accepted, payload, created_at = read_job(text)
        fence, attempt, crashes, moved_to = changed.get(place, _FRESH)
        run_at = int(moved_to) if moved_to else accepted.first_run_at(created_at)
        due_at = times.get(run_at)
        if due_at is None:
            due_at = times[run_at] = from_micros(run_at)
        start_by = accepted.start_by(created_at)
        if start_by is not None and (attempt > 0 or run_at > start_by):
            start_by = None  # it was tried, or was decided to start later: it cannot be late any more
        claims.append(
            Claim(
                ClaimRef(accepted.id, fence),
                accepted.task,
                accepted.version,
                payload,
                accepted.queue,
                accepted.priority,
                due_at,
                attempt,
                crashes,
                accepted.max_attempts,
                None if start_by is None else from_micros(start_by),
                accepted.on_late,
                accepted.metadata,
            )
        )
    return tuple(claims)


_AS_ACCEPTED = ("id", "task", "version", "queue", "priority", "max_attempts", "key", "tags", "metadata", "on_late")
"""What nothing ever changes of a job."""


def to_claims_apart(
    texts: Sequence[bytes], lives: Sequence[Any], held: Iterable[tuple[str, int, str]]
) -> tuple[Claim, ...]:
    """Return the claims of jobs of which some cannot be read; `held` are the id, fence and queue of all of them."""
    changed = {lives[at]: lives[at + 1 : at + 5] for at in range(0, len(lives), 5)}
    claims: list[Claim] = []
    problems: list[Exception] = []
    for place, text in enumerate(texts, 1):
        try:
            claims += to_claims((text,), (1, *changed[place]) if place in changed else ())
        except DAMAGES as error:
            problems.append(error)
    known = {claim.ref for claim in claims}
    others = [each for each in held if ClaimRef(*each[:2]) not in known]
    return (*claims, *(unreadable_claim(*each, error) for each, error in zip(others, problems, strict=False)))


def to_job(row: Row) -> Job:
    """Return the job that `shown` tells of."""
    try:
        return _to_job(row)
    except DAMAGES as error:
        return _unreadable_job(row, error)


def _unreadable_job(row: Row, error: Exception) -> Job:
    _, state, reason, _, finished_at, fence, attempt, crashes, group, cancel, worker, result, failed, *rest = row
    *_, job_id, queue = rest
    said = {
        "state": State(state.decode()) if state.decode() in set(State) else None,
        "queue": queue.decode(errors="replace"),
        "reason": _text(reason),
        "finished_at": _time(finished_at),
        "fence": fence,
        "attempt": attempt,
        "crashes": crashes,
        "group": group_limit(group),
        "cancel_requested": bool(cancel),
        "worker": _text(worker),
        "result": result,
        "error": _text(failed),
    }
    return unreadable_job(job_id.decode(), said, error)


def _to_job(row: Row) -> Job:
    text, state, reason, moved_to, finished_at, fence, attempt, crashes, group, cancel, *rest = row
    worker, result, error, progress, after, until, *_ = rest
    accepted, payload, created_at = read_job(text)
    return Job(
        **{name: getattr(accepted, name) for name in _AS_ACCEPTED},
        state=State(state.decode()),
        reason=_text(reason),
        run_at=from_micros(accepted.first_run_at(created_at) if moved_to is None else int(moved_to)),
        created_at=from_micros(created_at),
        finished_at=_time(finished_at),
        fence=fence,
        attempt=attempt,
        crashes=crashes,
        group=group_limit(group),
        cancel_requested=bool(cancel),
        worker=_text(worker),
        payload=payload,
        result=result,
        error=_text(error),
        progress=to_progress(progress),
        start_by=from_micros_or_none(accepted.start_by(created_at)),
        after=_text(after),
        result_until=_time(until),
        keep_key=span_from_micros(accepted.keep_key),
    )


def to_progress(text: bytes | None) -> Progress | None:
    """Return progress as it was reported."""
    if text is None:
        return None
    try:
        reported = _decode_progress(text)
    except msgspec.DecodeError:
        return None  # it is a word to people, and no reason to show nothing
    return Progress(reported.done, reported.total, reported.note)


def to_glance(state: bytes, progress: bytes | None) -> Glance:
    """Return the glance at a state and progress."""
    known = state.decode()
    return Glance(State(known) if known in set(State) else State.DEAD, to_progress(progress))


def to_attempt(row: Row) -> Attempt:
    """Return the claim that `history` tells of."""
    fence, worker, started_at, ended_at, how, error, traceback, log, folded = row
    times = (_time(started_at), _time(ended_at))
    words = (_text(how), _text(error), _text(traceback), _text(log))
    return Attempt(fence, worker.decode(), *times, *words, folded)


def to_worker(row: Row) -> Worker:
    """Return the worker that `workers` tells of."""
    _, registration, lease, started_at, age, condemned, held, running, vitals, name = row
    try:
        said = _decode_registration(registration)
    except msgspec.DecodeError:
        said = _Registration(name.decode(), NO_TASK, NO_TASK, 0, None, 0)
    info = WorkerInfo(lease=span_from_micros(int(lease)), **msgspec.structs.asdict(said))
    times = (from_micros(int(started_at)), span_from_micros(int(age)))
    return Worker(info, *times, bool(condemned), held, running, read_vitals(vitals))


def to_task(word: bytes) -> KnownTask:
    """Return the task that no worker knew, as the field of `unknown` names it."""
    version, _, name = word.decode().partition(":")
    return KnownTask(name, int(version))


def to_ref(job_id: bytes, fence: int) -> ClaimRef:
    """Return which claim is meant."""
    return ClaimRef(job_id.decode(), fence)


def pairs(flat: Row) -> Iterator[tuple[Any, Any]]:
    """Return what a reply tells by twos, one after the other."""
    return zip(flat[::2], flat[1::2], strict=True)


def fences(refs: Iterable[ClaimRef]) -> dict[str, int]:
    """Return the fences by job: of several for one job the last one, as only that can be valid."""
    return dict(sorted(refs))


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def _time(micros: bytes | None) -> datetime | None:
    return None if micros is None else from_micros(int(micros))
