"""The log for programs: each event and log record is one JSON object.

Every object has `time`, `level`, `event` and `message`, then what the event or record holds, flat. What a failure
says is cut, so that a line fits into what a pipe takes in one piece; the store keeps all of it.
"""

import re
import sys
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from logging import LogRecord, makeLogRecord
from typing import Any

import msgspec

from standfast import events
from standfast.model.clock import Clock
from standfast.model.job import Failure, Progress
from standfast.model.secrets import trace_of
from standfast.observe.logs.event_text import sentence
from standfast.observe.logs.levels import Level
from standfast.observe.logs.narrator import FirstCompletion, Folded, Summary

MESSAGE_LENGTH = 1000
TRACEBACK_LENGTH = 2000

_STANDARD = frozenset(vars(makeLogRecord({}))) | {"message", "asctime", "taskName"}
_STRUCTLOG = ("_logger", "_name", "_from_structlog", "_record")  # what its bridge adds for its own formatter
_WORD = re.compile(r"(?<!^)(?=[A-Z])")


class JsonLines:
    """Puts events and records into JSON; `whose` names the process in every line."""

    def __init__(self, clock: Clock, whose: Mapping[str, Any]) -> None:
        self._clock = clock
        self._whose = whose

    def of_event(self, event: events.Event, level: Level) -> str:
        """Return the line about an event."""
        told = event.event if isinstance(event, FirstCompletion) else event
        head = {"event": snake_case(type(told).__name__), "message": sentence(told)}
        return self._line(self._clock.now(), level.word, head, _held_by(told))

    def of_record(self, record: LogRecord) -> str:
        """Return the line about a record of the standard library's logging, with the extra fields it has."""
        held = {name: value for name, value in vars(record).items() if name not in _STANDARD}
        message, trace = _said(record, held)
        if trace:
            held["traceback"] = trace[-TRACEBACK_LENGTH:]
        head = {"event": "log", "message": message, "logger": record.name}
        return self._line(datetime.fromtimestamp(record.created, UTC), record.levelname.lower(), head, held)

    def of_dropped(self, count: int) -> str:
        """Return the line about lines that nobody read."""
        head = {"event": "lines_dropped", "message": "lines were dropped: nobody read them"}
        return self._line(self._clock.now(), Level.WARNING.word, head, {"count": count})

    def _line(self, at: datetime, level: str, head: Mapping[str, str], held: Mapping[str, Any]) -> str:
        time = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        ours = {"time": time, "level": level, **head}
        return _encoded({**ours, **self._whose, **held, **ours}) + "\n"


@cache
def snake_case(name: str) -> str:
    """Return the name of a class as JSON has it: `job_completed`."""
    return _WORD.sub("_", name).lower()


def _said(record: LogRecord, held: dict[str, Any]) -> tuple[str, str]:
    """Return the message of a record and its traceback; what it cannot say itself is told as it was given."""
    try:
        if isinstance(record.msg, dict) and "event" in record.msg and not record.args:
            return _unpacked(record.msg, record, held)
        return record.getMessage(), trace_of(record)
    except Exception:  # noqa: BLE001 - logging would tell of it in lines of its own, and all of ours are JSON
        return " ".join(map(_text, (record.msg, record.args) if record.args else (record.msg,))), ""


def _unpacked(structured: Mapping[str, Any], record: LogRecord, held: dict[str, Any]) -> tuple[str, str]:
    """Return the event and the traceback of a record of structlog; put the rest of its mapping among the fields.

    A field of the record, such as the job that it is of, goes before one of the mapping.
    """
    for name in _STRUCTLOG:
        held.pop(name, None)
    said = {str(name): value for name, value in structured.items() if name not in _STRUCTLOG}
    event, given = said.pop("event"), said.pop("exc_info", record.exc_info)
    held.update({name: value for name, value in said.items() if name not in held})
    error = given[1] if isinstance(given, tuple) else sys.exc_info()[1] if given is True else given
    trace = "".join(traceback.format_exception(error)) if isinstance(error, BaseException) else ""
    return str(event), trace


def _held_by(event: events.Event) -> dict[str, Any]:
    match event:
        case Folded(last=last, cause=cause, count=count, seconds=seconds):
            kind = {"kind": snake_case(type(last).__name__), "task": last.task, "queue": last.queue, "cause": cause}
            return {**kind, "count": count, "seconds": round(seconds, 3), "last_job_id": last.job_id}
        case Summary(tasks=tasks, failed=failed, seconds=seconds, completed=completed):
            return {"completed": completed, "failed": failed, "seconds": round(seconds, 3), "tasks": tasks}
        case _:
            held: dict[str, Any] = {}
            for field in msgspec.structs.fields(event):
                held.update(_flat(field.name, getattr(event, field.name)))
            if held.get("trace_id", "") is None:
                del held["trace_id"]
            return held


def _flat(name: str, value: Any) -> dict[str, Any]:
    match value:
        case Failure():
            trace = value.traceback and value.traceback[-TRACEBACK_LENGTH:]
            return {"error_type": value.type, "error_message": value.message[:MESSAGE_LENGTH], "traceback": trace}
        case Progress():
            return {"done": value.done, "total": value.total, "note": value.note}
        case timedelta():
            return {name: value.total_seconds()}
        case Mapping():
            return {name: {str(key): each for key, each in value.items()}}
        case _:
            return {name: value}


def _encoded(line: Mapping[str, Any]) -> str:
    try:
        return msgspec.json.encode(line, enc_hook=_text).decode()
    except Exception:  # noqa: BLE001 - what is logged may be anything, and a line is written all the same
        return msgspec.json.encode({_text(name): _text(value) for name, value in line.items()}).decode()


def _text(value: Any) -> str:
    """Return any value as text that JSON can hold, also where it cannot say what it is."""
    try:
        said = value if isinstance(value, str) else repr(value)
    except Exception:  # noqa: BLE001 - the class of the value decides what it raises
        said = f"a {type(value).__name__} that cannot be shown"
    return said.encode("utf-8", "backslashreplace").decode()
