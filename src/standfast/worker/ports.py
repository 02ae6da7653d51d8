"""What a worker needs from the world: real in a child process or a host, virtual in the simulator."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from standfast.clock import Clock
from standfast.events import Events, StopStage
from standfast.figures.counting import Tally
from standfast.store.backend import Backend
from standfast.worker.alarm import Alarms, LoopAlarm
from standfast.worker.attempt import Cells
from standfast.worker.messages import Channel
from standfast.worker.notes import Log

Staged = Callable[[StopStage, int], None]
"""Hears how far a stop is, and how many jobs run then."""


def not_told(_stage: StopStage, _running: int) -> None:
    """Tell nobody how far a stop is."""


@dataclass(frozen=True, slots=True)
class Ports:
    """All of it."""

    backend: Backend
    channel: Channel
    notes: Log
    clock: Clock
    random: Random
    events: Events
    alarms: Alarms = LoopAlarm
    busy: Callable[[bool], None] = lambda _: None
    """Hears, on the event loop, when jobs begin to run and when none runs any more."""
    cells: Callable[[], Cells] | None = None
    """Gives the processes for isolated tasks, which otherwise run in this one."""
    staged: Staged = not_told
    tally: Callable[[Clock], Tally] = Tally
    """Makes what counts how attempts end."""
