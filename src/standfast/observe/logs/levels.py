"""How much each event matters, and what the options of a log say.

What a person asked of the log of a worker.
"""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Literal

import msgspec

from standfast import events

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["human", "json"]


class LogOptions(msgspec.Struct, frozen=True):
    """From which level on lines are written, and in which form. `quiet`: of log records only, not of events."""

    level: LogLevel = "info"
    format: LogFormat = "human"
    quiet: bool = False


class Level(IntEnum):
    """How much a line matters; the numbers are those of the standard library's logging."""

    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40

    @property
    def word(self) -> str:
        """The level as people type it and as JSON has it."""
        return self.name.lower()


_LEVELS: Mapping[type[events.Event], Level] = MappingProxyType(
    {
        # What goes well with one job is told on demand; at INFO it is summed up.
        events.JobStarted: Level.DEBUG,
        events.JobProgressed: Level.DEBUG,
        events.JobCompleted: Level.DEBUG,
        events.JobSnoozed: Level.DEBUG,
        events.JobReleased: Level.DEBUG,
        events.JobCancelled: Level.INFO,
        events.JobLate: Level.WARNING,
        events.JobRetrying: Level.WARNING,
        events.JobBlocked: Level.WARNING,
        events.ClaimLost: Level.WARNING,
        events.JobDied: Level.ERROR,
        events.LoopBlocked: Level.WARNING,
        events.WorkerDeadlocked: Level.WARNING,
        events.WorkerReady: Level.INFO,
        events.WorkerRecycling: Level.INFO,
        events.WorkerNotRecycled: Level.ERROR,
        events.WorkerDraining: Level.INFO,
        events.WorkerDrained: Level.INFO,
        events.WorkerStopping: Level.INFO,
        events.WorkerStopped: Level.INFO,
        events.WorkerFound: Level.WARNING,
        events.WorkerCrashed: Level.ERROR,
        events.WorkerHung: Level.ERROR,
        events.WorkerLost: Level.ERROR,
        events.HostReady: Level.INFO,
        events.HostStopping: Level.INFO,
        events.HostStopped: Level.INFO,
        events.BeaterLost: Level.WARNING,
        events.Drained: Level.INFO,
        events.ScheduleFired: Level.DEBUG,
        events.ScheduleSkipped: Level.INFO,
        events.ScheduleDeclared: Level.INFO,
        events.ScheduleMissed: Level.WARNING,
        events.ScheduleForeign: Level.WARNING,
        events.ScheduleShared: Level.WARNING,
        events.ReleaseOlder: Level.WARNING,
        events.SchedulePaused: Level.ERROR,
        events.WindowNear: Level.INFO,
        events.WindowBegan: Level.INFO,
        events.WindowEnded: Level.INFO,
        events.WindowDeclared: Level.INFO,
        events.LimitChanged: Level.INFO,
        events.AlertFired: Level.WARNING,
        events.AlertResolved: Level.INFO,
        events.MetricsServed: Level.INFO,
        events.DeadRemoved: Level.WARNING,
        events.StoreAway: Level.WARNING,
        events.StoreBack: Level.WARNING,  # who hears that it is away must hear that it is back
    }
)


_WORTH_A_LINE = frozenset({events.StopStage.CLAIMING, events.StopStage.WAITING})
"""The stages of a stop that take a while; the others follow from them."""


def level_in(event: events.Event) -> Level:
    """Return how much an event matters, for what it says too."""
    if isinstance(event, events.HostStopping) and event.stage not in _WORTH_A_LINE:
        return Level.DEBUG
    return level_of(type(event))


def level_of(kind: type[events.Event]) -> Level:
    """Return how much a kind of event matters; one that the table does not know is worth a line."""
    return _LEVELS.get(kind, Level.INFO)
