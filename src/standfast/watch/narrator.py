"""Listens to events and has those told that matter enough: one by one, folded, or summed up.

    below the level ─► not wanted, but completions are counted for the summaries at INFO
    of a job        ─► the first ones of a kind told, the others folded
    any other       ─► told

At DEBUG every event is told. What is not wanted is not even made: jobs run at full speed beside this.
"""

import threading
from collections.abc import Callable
from typing import Protocol

from standfast import events
from standfast.clock import Clock
from standfast.watch.folding import Folded, Folding
from standfast.watch.levels import Level, level_in, level_of
from standfast.watch.summary import Tally


class EventLines(Protocol):
    """Puts an event into a line."""

    def of_event(self, event: events.Event, level: Level) -> str:
        """Return the line, with its end."""
        ...


class Narrator:
    """A subscriber that hands lines to `write`. `tick` is called now and again, `finish` at the end."""

    def __init__(self, level: Level, lines: EventLines, write: Callable[[str], object], clock: Clock) -> None:
        self._level = level
        self._lines = lines
        self._write = write
        self._folding = Folding(clock) if level > Level.DEBUG else None
        self._tally = Tally(clock) if level == Level.INFO else None
        self._counting = threading.Lock()  # events and ticks come from two threads

    def wants(self, kind: type[events.Event]) -> bool:
        """Tell whether events of this kind are told, or at least counted."""
        return level_of(kind) >= self._level or (kind is events.JobCompleted and self._tally is not None)

    def __call__(self, event: events.Event) -> None:
        """Tell the event, or count it."""
        if self._tally is not None and isinstance(event, events.JobCompleted):
            self._count_completion(self._tally, event)
        elif self._folding is not None and isinstance(event, events.JobEvent):
            self._fold(self._folding, event)
        elif (level := level_in(event)) >= self._level:
            self._tell(event, level)

    def tick(self) -> None:
        """Tell what was counted, where it is time to."""
        with self._counting:
            folded = self._folding.due() if self._folding else []
            summary = self._tally.due() if self._tally else None
        self._tell_counted([*folded, *([summary] if summary else [])])

    def finish(self) -> None:
        """Tell all that was counted."""
        with self._counting:
            folded = self._folding.rest() if self._folding else []
            summary = self._tally.rest() if self._tally else None
        self._tell_counted([*folded, *([summary] if summary else [])])

    def _count_completion(self, tally: Tally, event: events.JobCompleted) -> None:
        with self._counting:
            first = tally.completed(event)
        if first is not None:
            self._tell(first, Level.INFO)

    def _fold(self, folding: Folding, event: events.JobEvent) -> None:
        with self._counting:
            told = folding.tells(event)
            if self._tally is not None and isinstance(event, events.JobRetrying | events.JobDied):
                self._tally.failed()
        if told:
            self._tell(event, level_of(type(event)))

    def _tell_counted(self, counted: list[events.Event]) -> None:
        for event in counted:
            self._tell(event, level_of(type(event.last)) if isinstance(event, Folded) else Level.INFO)

    def _tell(self, event: events.Event, level: Level) -> None:
        self._write(self._lines.of_event(event, level))
