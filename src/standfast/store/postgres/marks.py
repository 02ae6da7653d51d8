"""From where on the fresh jobs of each level are to be walked.

Who takes jobs leaves dead entries in the index behind, and while some transaction still sees an old snapshot,
nothing can clear them away. A mark lets the next claim begin behind them. It is an xid: every transaction before it
had ended when the mark was set (`pg_snapshot_xmin`), and of what those had enqueued all was taken, or locked by
someone who was taking it (or is of a task that is closed to the claims whose marks these are). Such a one may roll
back: so from time to time everything is walked again, without marks.
While an old snapshot is held open that takes long, and is then done the less often.
"""

import json
import time
from collections.abc import Callable, Container, Iterable
from typing import TypeAlias

from standfast.store.postgres.levels import Level

SWEEP_EVERY = 15.0
LONGEST_PAUSE = 300.0
"""Seconds after which a claim walks everything again, at least and at most."""

SHARE = 0.01
"""Which part of the time may go into walks of everything."""

Noted: TypeAlias = dict[Level, int]
"""Marks as a claim takes them along. What it learns is noted in the same object: once that is forgotten, so is all
that a claim learns which began before, on what may be another server."""


class Marks:
    """The marks of one process. Any thread may use them."""

    def __init__(self, sweep_every: float = SWEEP_EVERY, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._sweep_every = sweep_every
        self._monotonic = monotonic
        self._swept_at = monotonic()
        self._pause = sweep_every
        self._noted: Noted = {}
        self._walks: Noted | None = None

    def forget(self) -> None:
        """Begin at the front again: the server was lost from sight, and another may have taken its place."""
        self._noted = {}

    @property
    def noted(self) -> Noted:
        """The marks as they are."""
        return self._noted

    def begin(self) -> Noted:
        """Return the marks for a claim that begins now: none, if it is time to walk everything again."""
        now = self._monotonic()
        if now - self._swept_at >= self._pause:
            self._swept_at = now
            self.forget()
            self._walks = self._noted
        return self._noted

    def walked(self, noted: Noted) -> None:
        """Note that a claim has come to its end: if it was to walk everything, how long it took counts."""
        if noted is self._walks:
            self._walks = None
            took = self._monotonic() - self._swept_at
            self._pause = max(self._sweep_every, min(took / SHARE, LONGEST_PAUSE))


def as_json(noted: Noted, queues: Container[str] | None) -> str:
    """Return the marks of these queues, None for every queue, as the statements take them."""
    marks = noted.copy().items()
    return json.dumps(
        {f"{priority} {queue}": mark for (queue, priority), mark in marks if queues is None or queue in queues}
    )


def note(noted: Noted, xmin: int, taken: Iterable[tuple[Level, int]], empty: Iterable[Level]) -> None:
    """Note what a claim learned from a snapshot of this xmin: how far it took jobs, and which levels had none.

    A mark beyond xmin was set on another server, and would come to mean something again as this one grows older.
    """
    for level in [level for level, mark in noted.copy().items() if mark > xmin]:
        noted.pop(level, None)
    furthest: Noted = {}
    for level, mark in taken:
        furthest[level] = max(mark, furthest.get(level, 0))
    noted.update(furthest)
    noted.update(dict.fromkeys(empty, xmin))
