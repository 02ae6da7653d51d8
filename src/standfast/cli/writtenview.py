"""What a job has written down and was sent, as `jobs show` prints it: cursors, steps, waits, signals, files."""

from datetime import datetime
from typing import Any

import msgspec

from standfast.cli.output import Column, cut, say_block, say_heading, say_table
from standfast.codec import MASK
from standfast.durable.files import Kept
from standfast.durable.written import CursorTold, SignalTold, StepTold, Told, WaitTold, Written
from standfast.words import counted, dated, in_bytes, one_line

_LONGEST = 100
"""Characters of a value in a table."""


def written_fields(written: Written) -> dict[str, Any]:
    """Return it, ready for JSON."""
    return {
        "cursors": [
            {"name": each.name or None, "version": each.version, "done": each.done, **_value(each.told)}
            for each in written.cursors
        ],
        "steps": [{"name": each.name, "version": each.version, **_value(each.told)} for each in written.steps],
        "waits": [
            {
                "name": each.name,
                "number": each.number,
                "until": each.until,
                "how": each.how,
                **_value(each.told),
            }
            for each in written.waits
        ],
        "signals": [
            {"name": each.name, "sent_at": each.sent_at, "taken": each.taken, **_value(each.told)}
            for each in written.signals
        ],
        "files": [file_fields(each) for each in written.files],
    }


def file_fields(kept: Kept) -> dict[str, Any]:
    """Return a file, ready for JSON."""
    return {name: getattr(kept, name) for name in ("name", "size", "sha256", "saved_at", "place")}


def say_written(written: Written, now: datetime) -> None:
    """Print it; nothing where nothing is written down."""
    if written.cursors:
        say_heading("How far it got")
        say_table(written.cursors, _cursor_columns(), indent=2)
    if written.steps:
        say_heading("Steps done")
        say_table(written.steps, _step_columns(), indent=2)
    if written.waits:
        say_heading("Waits")
        say_table(written.waits, _wait_columns(now), indent=2)
    if written.signals:
        say_heading("Signals")
        say_table(written.signals, _signal_columns(now), indent=2)
    if written.files:
        say_heading("Files")
        say_table(written.files, file_columns(now), indent=2)
    if written.unreadable:
        names = ", ".join(map(one_line, written.unreadable))
        say_block(f"{counted(len(written.unreadable), 'memo')} cannot be read here: {names}", style="red")


def file_columns(now: datetime) -> list[Column[Kept]]:
    """Return the columns of a list of files."""
    return [
        Column("NAME", lambda each: cut(each.name), shrinks=True),
        Column("SIZE", lambda each: in_bytes(each.size), justify="right"),
        Column("SAVED", lambda each: dated(each.saved_at, now)),
        Column("SHA-256", lambda each: each.sha256, short=lambda each: each.sha256[:12]),
    ]


def _cursor_columns() -> list[Column[CursorTold]]:
    return [
        Column("LOOP", lambda each: cut(each.name or "ctx.cursor"), shrinks=True),
        Column("DONE", lambda each: f"{each.done:,}" if each.name else "", justify="right"),
        Column("VERSION", lambda each: str(each.version), justify="right"),
        Column("AT", lambda each: cut(_shown(each.told)), shrinks=True),
    ]


def _step_columns() -> list[Column[StepTold]]:
    return [
        Column("STEP", lambda each: cut(each.name), shrinks=True),
        Column("VERSION", lambda each: str(each.version), justify="right"),
        Column("SIZE", lambda each: in_bytes(each.told.size), justify="right"),
        Column("RESULT", lambda each: cut(_shown(each.told)), shrinks=True),
    ]


def _wait_columns(now: datetime) -> list[Column[WaitTold]]:
    return [
        Column("WAITS FOR", lambda each: cut(each.name), shrinks=True),
        Column("NUMBER", lambda each: str(each.number), justify="right"),
        Column("UNTIL", lambda each: _until(each, now)),
        Column("ENDED", lambda each: each.how or _passed(each, now)),
        Column("DATA", lambda each: cut(_shown(each.told) if each.how else ""), shrinks=True),
    ]


def _signal_columns(now: datetime) -> list[Column[SignalTold]]:
    return [
        Column("SIGNAL", lambda each: cut(each.name), shrinks=True),
        Column("SENT", lambda each: "" if each.sent_at is None else dated(each.sent_at, now)),
        Column("TAKEN", lambda each: "yes" if each.taken else "not yet"),
        Column("DATA", lambda each: cut("" if each.taken else _shown(each.told)), shrinks=True),
    ]


def _until(wait: WaitTold, now: datetime) -> str:
    """Return the deadline of a wait; one that is over need not tell that it had none."""
    if wait.until is not None:
        return dated(wait.until, now)
    return "for ever" if wait.how is None else ""


def _passed(wait: WaitTold, now: datetime) -> str:
    """Return how a wait stands whose end was not written down: that of a sleep never is."""
    return "not yet" if wait.until is None or wait.until > now else "its time has come"


def _value(told: Told) -> dict[str, Any]:
    return {"size": told.size, "value": told.value}


def _shown(told: Told) -> str:
    """Return a value in one line, or that it is not shown."""
    if told.value is None:
        return f"{MASK} {in_bytes(told.size)}"
    return one_line(msgspec.json.format(bytes(told.value), indent=-1).decode(errors="replace"), _LONGEST)
