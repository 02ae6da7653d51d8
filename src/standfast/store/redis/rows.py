"""From the replies of scripts to the values that others see."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from standfast.core.crash import group_limit
from standfast.core.job import NO_TASK, Attempt, Claim, ClaimRef, Glance, Job, KnownTask, Progress
from standfast.core.states import State
from standfast.core.vitals import read_vitals
from standfast.store.protocol import Turn, Worker, WorkerInfo
from standfast.store.redis.job_texts import read_job
from standfast.store.redis.packing import pack
from standfast.store.times import from_micros, from_micros_or_none, span_from_micros
from standfast.store.unreadable import DAMAGES, unreadable_claim, unreadable_job

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
    return (
        *claims,
        *(unreadable_claim(*each, error) for each, error in zip(others, problems, strict=False)),
    )


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
