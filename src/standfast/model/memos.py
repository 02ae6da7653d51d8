"""What a job writes down for its own later attempts, and what others send it.

A memo is a small named document of one job. Memos are written under its claim, read by whoever runs it next, kept
until the job is forgotten, and never deleted one by one. The name says what it is:

    cursor              how far the job got                                     (ctx.cursor, ctx.resume)
    step:NAME           the result of a step that is done                       (ctx.step)
    wait:NAME:NUMBER    a wait that has begun: until when, and how it ended      (ctx.wait_for, ctx.sleep_until)
    signal:NAME:TOKEN   a signal that somebody sent; with an empty body, taken   (app.signal)
    file:NAME           where a file that the job has saved is                   (ctx.save_file)
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import msgspec

from standfast.model.job import ClaimRef

FOR_EVER = timedelta(days=36_500)
"""The delay of a job that waits for a signal, however long it takes."""

SLEEPING = "sleep"
"""The reason of a job that gave its slot back until a time."""

MEMO_LIMIT = 256 * 1024
"""Bytes that one memo may take."""

MEMOS_LIMIT = 1000
"""Memos that one job may write; and the signals that it may be sent, which are not counted with those."""

LAST_NUMBER = 2**31 - 1
"""The number of a save that goes with the end of its claim: nothing of that claim can come after it."""

_SIGNAL = "signal:"
_STEP = "step:"


class Memo(msgspec.Struct, frozen=True):
    """A document of a job. Stores do not read the body."""

    name: str
    body: bytes

    def __repr__(self) -> str:  # without the body, which may hold secrets
        return f"<Memo {self.name}>"


class Save(msgspec.Struct, frozen=True):
    """What a claim writes down. `number` grows from save to save of one claim, from 1.

    A memo is written unless it was already written by a later claim of the job or by a later save of this one: so a
    save that was given up and arrives late changes nothing that came after it.
    """

    ref: ClaimRef
    number: int
    memos: tuple[Memo, ...]


def signal_reason(name: str) -> str:
    """Return the reason of a job that waits for a signal of this name."""
    return f"{_SIGNAL}{name}"


def signal_name(reason: str | None) -> str | None:
    """Return which signal a job with this reason waits for; None if it waits for none."""
    return reason.removeprefix(_SIGNAL) if reason is not None and reason.startswith(_SIGNAL) else None


def signal_memo(name: str, token: str) -> str:
    """Return the name of the memo of one signal. Tokens are UUIDv7s: by name, the earlier signal is first."""
    return f"{_SIGNAL}{name}:{token}"


def signal_prefix(name: str) -> str:
    """Return how the memos of the signals of one name begin. No name of a signal has a colon in it."""
    return f"{_SIGNAL}{name}:"


def is_signal(memo: str) -> bool:
    """Tell whether a memo of this name is of a signal."""
    return memo.startswith(_SIGNAL)


def step_memo(name: str) -> str:
    """Return the name of the memo of a step."""
    return f"{_STEP}{name}"


def step_name(memo: str) -> str | None:
    """Return which step a memo of this name is about; None if it is about none."""
    return memo.removeprefix(_STEP) if memo.startswith(_STEP) else None


def wait_memo(name: str, number: int, place: str = "") -> str:
    """Return the name of the memo of a wait: the so manieth of this name in a run, or at a place in its loops."""
    return f"wait:{name}:{place}#{number}" if place else f"wait:{name}:{number}"


def is_for_ever(run_at: datetime, now: datetime) -> bool:
    """Tell whether a job that waits for a signal until then waits for it however long it takes."""
    return run_at - now >= FOR_EVER / 2


def is_suspended(reason: str | None) -> bool:
    """Tell whether a scheduled job with this reason has given its slot back on purpose, and waits."""
    return reason == SLEEPING or signal_name(reason) is not None


_LONGEST = 100


def signal_problems(name: Any) -> Iterator[str]:
    """Yield what is wrong with the name of a signal."""
    if not (isinstance(name, str) and 1 <= len(name) <= _LONGEST and name.isprintable() and ":" not in name):
        yield f"a signal's name must be 1 to {_LONGEST} printable characters without ':', not {name!r:.80}"
    elif name == SLEEPING:
        yield f"{SLEEPING!r} is what ctx.sleep_until waits for, and cannot be a signal's name: choose another"
