"""What several commands show of a job."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType

import msgspec
from rich.text import Text

from standfast.cli.output import Column, coloured, cut, say_block, say_fields, say_heading
from standfast.core.job import Job, Progress
from standfast.core.memo import is_for_ever
from standfast.core.states import FINAL
from standfast.watch.envelope import decoded_args
from standfast.watch.jobfields import waits_for
from standfast.words import dated, one_line, relative, short_id, with_note

_WIDE = 120


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
    waits: Column[Job] = Column("WAITS FOR", lambda job: cut(str(waits_for(job) or "")), shrinks=True)
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


def due(job: Job, now: datetime, told: Callable[[datetime, datetime], str] = dated) -> str:
    """Return when a job is due, as it is `told`; a signal that is waited for without an end has no time."""
    open_end = waits_for(job) is not None and is_for_ever(job.run_at, now)
    return "when it comes" if open_end else told(job.run_at, now)


def _when(job: Job, now: datetime, told: Callable[[datetime, datetime], str]) -> str:
    """Return the time that matters in the job's state: its end, or else when it is due."""
    return told(job.finished_at, now) if job.finished_at else due(job, now, told)
