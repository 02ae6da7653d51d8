"""A child as its supervisor sees it, and the port behind which real and simulated processes look the same.

starting ─► working ─► leaving ─► gone
    └──────────┴──────────────────►┘
"""

import asyncio
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Protocol

from holdfast.core.crash import Death, DeathKind
from holdfast.core.job import ClaimRef
from holdfast.store.protocol import WorkerBeat
from holdfast.supervisor.evidence import Exit
from holdfast.worker.messages import Channel
from holdfast.worker.notes import LogReader, read_notes


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """Which child to start. `alone`: it takes one suspect and leaves."""

    worker: str
    alone: bool = False


class ChildProcess(Protocol):
    """A process that was started."""

    @property
    def pid(self) -> int:
        """Its number."""
        ...

    @property
    def channel(self) -> Channel:
        """The line to it."""
        ...

    @property
    def notes(self) -> LogReader:
        """What it has in hand, readable also after its death."""
        ...

    async def wait(self) -> Exit:
        """Return how it ended, once it has."""
        ...

    def kill(self) -> None:
        """End it at once."""
        ...

    async def stacks(self) -> str:
        """Return where its threads are, as well as that can be known."""
        ...

    def forget(self) -> None:
        """Remove what it left behind on disk."""
        ...


class Launcher(Protocol):
    """Starts children."""

    async def launch(self, spec: ChildSpec) -> ChildProcess:
        """Start a child and tell it what to be."""
        ...


class Phase(Enum):
    """Where a child is in its life."""

    STARTING = "starting"
    WORKING = "working"
    LEAVING = "leaving"


@dataclass(slots=True)
class Child:
    """One child and what is known of it."""

    spec: ChildSpec
    process: ChildProcess
    pulse_at: float
    phase: Phase = Phase.STARTING
    lost: bool = False
    killed_to_stop: bool = False
    retired: bool = False
    worked: bool = False
    refusal: str | None = None
    verdict: str = ""
    unanswered_for: float = 0.0
    polled_at: datetime | None = None
    stuck: set[ClaimRef] = field(default_factory=set)
    executioner: asyncio.TimerHandle | None = None
    replace: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when another child should take its place."""

    @property
    def worker(self) -> str:
        """The worker incarnation that this child is."""
        return self.spec.worker

    def beat(self) -> WorkerBeat:
        """Return its beat, from its notes: no help of the child is needed."""
        noted = read_notes(self.process.notes)
        return WorkerBeat(self.worker, noted.closed_call, noted.held, self.polled_at)

    def death(self, end: Exit) -> Death:
        """Return what its end means for its claims."""
        noted = read_notes(self.process.notes)
        if self.stuck:
            return Death(DeathKind.CRASHED, frozenset(self.stuck) & noted.running, self.verdict)
        asked = self.phase is Phase.LEAVING or self.retired
        if self.killed_to_stop or (asked and end.clean):
            return Death(DeathKind.STOPPED)
        evidence = "; ".join(filter(None, [str(end), self.verdict]))
        return Death(DeathKind.CRASHED, noted.running, evidence)
