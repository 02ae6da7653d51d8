"""Statements in files, and rows of jobs in SQL.

SQL lives in files; this turns them into statements by name.

A query file is a row of blocks that begin with `-- name: …`. Such a block says in `-- takes: …` which parameters
the caller gives, in that order. The SQL says `:name` for each of them, which here becomes its number, with its type
where one is said. Other comments are for readers.

The states are put in while loading, as literals and not as parameters, because a planner uses a partial index only
where it can read in the query's own text that the index applies. What several statements share stands at the
beginning of their file, or for all files in `parts.sql`, in blocks that begin with `-- part: …`; they say a part's
name in braces, as they do with a state's.

A part that is said to be there `where tasks are closed` is empty otherwise. Statements that use such a part are
there twice, the second time with `_of_open_tasks` after their names: to look at the task of each job costs a claim
more than to look into an index, and most claims need not.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.resources.abc import Traversable
from types import MappingProxyType
from typing import Any, NamedTuple

from standfast.model.crash import group_limit
from standfast.model.job import Attempt, Job, JobAction, OnLate, Progress
from standfast.model.records import Decision, Fire, FireCause, Kind, Record
from standfast.model.states import CLAIMED, WAITING, Reason, State
from standfast.stores.rows import DAMAGES, from_micros, from_micros_or_none, span_from_micros, unreadable_job
from standfast.stores.values import WorkerInfo

_SHARED = "parts.sql"
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_PART = re.compile(r"^-- part(, where tasks are closed)?: (\w+)$", re.MULTILINE)
_TAKES = re.compile(r"^-- takes: (.+)$", re.MULTILINE)
_USED = re.compile(r"(?<![:\w]):(\w+)")


def _literal(word: str) -> str:
    return f"'{word}'"


def _literals(words: Iterable[str]) -> str:
    return f"({', '.join(_literal(word) for word in sorted(words))})"


WORDS: Mapping[str, str] = {
    **{state.value: _literal(state) for state in State},
    **{reason.value: _literal(reason) for reason in Reason},
    "claimed": _literals(CLAIMED),
    "waiting": _literals(WAITING),
}
"""What stands in braces in every file: states and reasons, and lists of them."""


OF_OPEN_TASKS = "_of_open_tasks"
"""What the names of statements end with that pass over the jobs of closed tasks."""


class _Block(NamedTuple):
    name: str
    takes: str
    text: str


def read_statements(folder: Traversable) -> dict[str, str]:
    """Return every named statement in the files of a folder."""
    usual = _statements(folder, narrow=False)
    narrow = _statements(folder, narrow=True)
    return usual | {f"{name}{OF_OPEN_TASKS}": text for name, text in narrow.items() if text != usual[name]}


def _statements(folder: Traversable, *, narrow: bool) -> dict[str, str]:
    files = {file.name: file.read_text("utf-8") for file in sql_files(folder)}
    shared = _with_parts(WORDS, files.pop(_SHARED, ""), narrow=narrow)
    statements: dict[str, str] = {}
    for content in files.values():
        head, *rest = _NAME.split(content)
        words = _with_parts(shared, head, narrow=narrow)
        for name, takes, text in _blocks(rest):
            if name in statements:
                raise ValueError(f"two statements are named {name}")
            statements[name] = _numbered(name, text.format_map(words), takes.format_map(words))
    return statements


def sql_files(folder: Traversable) -> list[Traversable]:
    """Return the SQL files in a folder by name, which for migrations is their order."""
    return sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)


def _with_parts(words: Mapping[str, str], content: str, *, narrow: bool) -> dict[str, str]:
    """Return the words, and with them the parts that the beginning of a file has."""
    known = dict(words)
    _, *rest = _PART.split(content)
    only_if_narrow = rest[::3]
    for only, (name, _, text) in zip(
        only_if_narrow, _blocks([each for place, each in enumerate(rest) if place % 3]), strict=True
    ):
        known[name] = "" if only and not narrow else text.format_map(known)
    return known


def _blocks(names_and_bodies: Sequence[str]) -> Iterator[_Block]:
    for name, body in zip(names_and_bodies[::2], names_and_bodies[1::2], strict=True):
        lines = (line for line in body.splitlines() if not line.startswith("--"))
        yield _Block(name, ", ".join(_TAKES.findall(body)), "\n".join(lines).strip())


def _numbered(statement: str, sql: str, takes: str) -> str:
    """Return the SQL as drivers take it: `?1`, or `$1::type` where the type is said."""
    places: dict[str, str] = {}
    for number, taken in enumerate(takes.split(",") if takes else (), 1):
        name, _, type_ = taken.strip().partition(" ")
        places[name] = f"${number}::{type_}" if type_ else f"?{number}"
    used = set(_USED.findall(sql))
    if used != places.keys():
        raise ValueError(f"{statement} takes {sorted(places)} and uses {sorted(used)}")
    return _USED.sub(lambda use: places[use[1]], sql)


# From rows to the values that others see, as far as both SQL stores keep them alike.

Row = Sequence[Any]

MANY_CHANGED = {
    JobAction.RETRY: ("revive_many", "make_many_due"),
    JobAction.CANCEL: ("ask_many_to_cancel", "withdraw_many"),
    JobAction.DISCARD: ("discard_many",),
    JobAction.RESCHEDULE: ("reschedule_many",),
}
"""The statements that change many jobs; each tells which."""

NO_METADATA: Mapping[str, str] = MappingProxyType({})
"""Shared by all that have none."""


def read_metadata(text: str) -> Mapping[str, str]:
    """Return metadata as they were written."""
    metadata: Mapping[str, str] = json.loads(text)
    if not isinstance(metadata, dict):
        raise ValueError("its metadata are no JSON object")  # noqa: TRY004 - as JSON that is none
    return metadata


def to_job(row: Row, read_tags: Callable[[Any], Iterable[str]] = tuple) -> Job:
    """Return the job that `job_columns` tell of; `read_tags` is for tags that are not stored as a list."""
    try:
        return _to_job(row, read_tags)
    except DAMAGES as error:
        return _unreadable_job(row, error)


_SAID = (
    "task",
    "version",
    "queue",
    "priority",
    "state",
    "reason",
    "run_at",
    "created_at",
    "finished_at",
    "fence",
    "attempt",
    "crashes",
    "max_attempts",
    "group",
    "cancel_requested",
    "worker",
    "payload",
    "result",
    "error",
)
"""What the columns of a job tell first, after its id."""


def _unreadable_job(row: Row, error: Exception) -> Job:
    id_, *values = row
    said = dict(zip(_SAID, values, strict=False))
    said["state"] = State(said["state"]) if said["state"] in set(State) else None
    for name in ("run_at", "created_at", "finished_at"):
        said[name] = from_micros(said[name]) if isinstance(said[name], int) else None
    return unreadable_job(id_, said, error)


def _to_job(row: Row, read_tags: Callable[[Any], Iterable[str]]) -> Job:
    id_, task, version, queue, priority, state, reason, run_at, created_at, finished_at, *rest = row
    fence, attempt, crashes, max_attempts, group, cancel_requested, worker, payload, result, error, *rest = rest
    done, total, note, key, tags, metadata, start_by, on_late, after, result_until, keep_key = rest
    if bytes in set(map(type, (id_, task, queue, reason, worker, error, note, key))):
        raise ValueError("a text of it is none")
    return Job(
        id=id_,
        task=task,
        version=version,
        queue=queue,
        priority=priority,
        state=State(state),
        reason=reason,
        run_at=from_micros(run_at),
        created_at=from_micros(created_at),
        finished_at=from_micros_or_none(finished_at),
        fence=fence,
        attempt=attempt,
        crashes=crashes,
        max_attempts=max_attempts,
        group=group_limit(group),
        cancel_requested=bool(cancel_requested),
        worker=worker,
        payload=payload,
        result=result,
        error=error,
        progress=to_progress(done, total, note),
        key=key,
        tags=() if tags is None else tuple(read_tags(tags)),
        metadata=NO_METADATA if metadata is None else read_metadata(metadata),
        start_by=from_micros_or_none(start_by),
        on_late=OnLate.RUN if on_late is None else OnLate(on_late),
        after=after,
        result_until=from_micros_or_none(result_until),
        keep_key=span_from_micros(keep_key),
    )


def to_progress(done: float | None, total: float | None, note: str | None) -> Progress | None:
    """Return how far a job is, if it has said so."""
    return None if done is None else Progress(done, total, note)


def to_worker_info(row: Row, read_queues: Callable[[Any], Iterable[str]] = tuple) -> WorkerInfo:
    """Return what a worker said of itself; `read_queues` is for queues that are not stored as a list."""
    id_, supervisor, host, pid, lease, queues, concurrency = row
    served = None if queues is None else tuple(read_queues(queues))
    return WorkerInfo(id_, supervisor, host, pid, span_from_micros(lease), served, concurrency)


def to_attempt(row: Row) -> Attempt:
    """Return the claim that a row of the history tells of."""
    fence, worker, started_at, ended_at, *story = row
    return Attempt(fence, worker, from_micros_or_none(started_at), from_micros_or_none(ended_at), *story)


def to_record(row: Row) -> Record:
    """Return the record that a row tells of."""
    kind, name, version, due_at, body, token = row
    return Record(Kind(kind), name, version, from_micros_or_none(due_at), body, token)


def to_fire(row: Row) -> Fire:
    """Return the fire that a row tells of."""
    schedule, planned, decision, cause, count, until, job_id, note, decided_at = row
    return Fire(
        schedule=schedule,
        planned=from_micros(planned),
        decision=Decision(decision),
        cause=FireCause(cause),
        count=count,
        until=from_micros_or_none(until),
        job_id=job_id,
        note=note,
        decided_at=from_micros(decided_at),
    )
