"""A job as the fields that `--json` prints, its bytes decoded; and what several commands show of it."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

import msgspec
from rich.text import Text

from holdfast.cli.output import Column, coloured, cut, say_block, say_fields, say_heading
from holdfast.codec import MASK
from holdfast.core.crash import had_started
from holdfast.core.job import Attempt, Job, Progress
from holdfast.core.memo import is_for_ever, is_suspended, signal_name
from holdfast.core.provenance import planned_of, schedule_of, without_provenance
from holdfast.core.states import FINAL, State
from holdfast.words import dated, one_line, relative, short_id, with_note

_WIDE = 120
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_JOB_FIELDS = tuple(field.name for field in msgspec.structs.fields(Job) if field.name != "payload")
_ATTEMPT_FIELDS = tuple(field.name for field in msgspec.structs.fields(Attempt))


_MASKED = msgspec.Raw(msgspec.json.encode(MASK))


class _Envelope(msgspec.Struct):
    args: dict[str, msgspec.Raw]
    secret: dict[str, msgspec.Raw] = {}


def job_fields(job: Job) -> dict[str, Any]:
    """Return everything there is about a job, ready for JSON."""
    fields = {name: getattr(job, name) for name in _JOB_FIELDS}
    progress = job.progress
    fields["progress"] = progress and {"done": progress.done, "total": progress.total, "note": progress.note}
    fields["metadata"] = without_provenance(job.metadata)
    fields["schedule"], fields["planned_at"] = schedule_of(job.metadata), planned_of(job.metadata)
    return {**fields, **decoded_args(job.payload), **_decoded_result(job.result)}


def decoded_args(payload: bytes) -> dict[str, Any]:
    """Return the arguments as they are stored; of a secret one, its name."""
    try:
        envelope = msgspec.json.decode(_checked(payload), type=_Envelope)
        return {"args": envelope.args | dict.fromkeys(envelope.secret, _MASKED)}
    except _UNREADABLE as error:
        return {"args": None, "payload_error": f"the payload cannot be read: {error}"}


def has_secrets(payload: bytes) -> bool:
    """Tell whether a job has arguments that nobody is to see; so has one that cannot be read, for all we know."""
    try:
        return bool(msgspec.json.decode(payload, type=_Envelope).secret)
    except _UNREADABLE:
        return True


def say_arguments(payload: bytes) -> None:
    """Print the arguments of a payload; of a secret one, its name."""
    fields = decoded_args(payload)
    say_heading("Arguments")
    if "payload_error" in fields:
        say_block(fields["payload_error"], style="red")
    elif fields["args"]:
        say_fields({one_line(name): _text(value) for name, value in fields["args"].items()})
    else:
        say_block("none", style="dim")


def _text(encoded: msgspec.Raw) -> str:
    return bytes(encoded).decode(errors="replace")


def _decoded_result(result: bytes | None) -> dict[str, Any]:
    try:
        return {"result": None if result is None else _checked(result)}
    except _UNREADABLE as error:
        return {"result": None, "result_error": f"the result cannot be read: {error}"}


def _checked(encoded: bytes) -> msgspec.Raw:
    """Return JSON as it was stored; decoding first proves that it is JSON."""
    msgspec.json.decode(encoded)
    return msgspec.Raw(encoded)


def attempt_fields(attempts: Sequence[Attempt]) -> list[dict[str, Any]]:
    """Return a job's history, ready for JSON."""
    return [
        {name: getattr(attempt, name) for name in _ATTEMPT_FIELDS} | {"started": had_started(attempt)}
        for attempt in attempts
    ]


def indented(value: msgspec.Raw) -> str:
    """Return a decoded value as JSON for people."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode(errors="replace")


def progress_words(progress: Progress) -> str:
    """Return how far a job is and what it is doing: `3 of 10 (30%): the shoes`."""
    words = f"{progress.done:,g} done"
    if progress.total:
        words = f"{progress.done:,g} of {progress.total:,g} ({progress.done / progress.total:.0%})"
    return with_note(words, progress.note)


def job_columns(
    now: datetime,
    *,
    dead: bool = False,
    progress: bool = False,
    waiting: bool = False,
    incidents: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> list[Column[Job]]:
    """Return the columns of a list of jobs; among the dead the error matters more than the state."""
    involved: Column[Job] = Column("INCIDENT", lambda job: _latest(incidents.get(job.id, ())), vital=1)
    waits: Column[Job] = Column("WAITS FOR", lambda job: cut(waits_for(job) or ""), shrinks=True)
    far: Column[Job] = Column("PROGRESS", lambda job: cut(_progress(job)), shrinks=True)
    states: list[Column[Job]] = [
        Column("STATE", lambda job: coloured(job.state), below_width=_WIDE),
        Column("STATE", _state_and_wish, from_width=_WIDE),
    ]
    return [
        Column("ID", lambda job: job.id, short=lambda job: short_id(job.id)),
        Column("TASK", lambda job: cut(job.task), shrinks=True),
        Column("QUEUE", lambda job: cut(job.queue), shrinks=True),
        *([] if dead else states),
        Column("FAILS", lambda job: f"{job.attempt}/{job.max_attempts}", justify="right"),
        Column("WHEN", lambda job: _when(job, now, relative), below_width=_WIDE),
        Column("WHEN", lambda job: _when(job, now, dated), from_width=_WIDE),
        *([waits] if waiting else []),
        *([far] if progress else []),
        Column(
            "ERROR",
            lambda job: cut(job.error or "", "red"),
            from_width=0 if dead else _WIDE,
            shrinks=True,
            vital=int(dead),
        ),
        *([involved] if incidents else []),
    ]


def _latest(incidents: Sequence[str]) -> str:
    more = f" +{len(incidents) - 1}" if len(incidents) > 1 else ""
    return f"{short_id(incidents[0])}{more}" if incidents else ""


def _progress(job: Job) -> str:
    return "" if job.progress is None else progress_words(job.progress)


def _state_and_wish(job: Job) -> Text:
    text = coloured(job.state)
    if job.cancel_requested and job.state not in FINAL:
        text.append(" (cancelling)", style="yellow")
    return text


def waits_for(job: Job) -> str | None:
    """Return what a job waits for that has given its slot back: a signal, or a time. None if it has not."""
    if job.state is not State.SCHEDULED or not is_suspended(job.reason):
        return None
    name = signal_name(job.reason)
    return "a time" if name is None else f"signal {name}"


def due(job: Job, now: datetime, told: Callable[[datetime, datetime], str] = dated) -> str:
    """Return when a job is due, as it is `told`; a signal that is waited for without an end has no time."""
    open_end = waits_for(job) is not None and is_for_ever(job.run_at, now)
    return "when it comes" if open_end else told(job.run_at, now)


def _when(job: Job, now: datetime, told: Callable[[datetime, datetime], str]) -> str:
    """Return the time that matters in the job's state: its end, or else when it is due."""
    return told(job.finished_at, now) if job.finished_at else due(job, now, told)
