"""A child as its supervisor sees it, its slot, and the port behind which real and simulated processes look the same.

starting ─► working ─► leaving ─► gone
"""

import asyncio
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from itertools import islice
from typing import Protocol

from standfast.model.crash import Death, DeathKind
from standfast.model.incidents import InvolvedJob
from standfast.model.job import ClaimRef
from standfast.observe.incidents import naming
from standfast.stores.values import Vitals, WorkerBeat
from standfast.worker.claim_log import ClaimLogReader, LoggedClaims, read_claim_log
from standfast.worker.messages import Buried, Channel, Kill, Killed, Picture, Pictured, Stop


class ChildSlot:
    """Where a supervisor has one child, or for a moment two, of which one relieves the other."""

    def __init__(self) -> None:
        self.kept = asyncio.Event()  # set while a child is to be here
        self.kept.set()
        self.told_empty = False  # whether it was said that nobody is here any more

    @property
    def drained(self) -> bool:
        """Whether nobody is to be here any more."""
        return not self.kept.is_set()


_LONG_AGO = datetime.min.replace(tzinfo=UTC)
MOST_TOLD = 100  # of so many cancelled jobs that go on its beat tells
KILL_AFTER_GRACE = 8.0  # seconds beyond the grace after which a child that was told to leave is killed


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """Which child to start. With a `group` it takes suspects of that group that may run together, and leaves."""

    worker: str
    group: int = 0


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process ended: its status, or minus the number of the signal that ended it.

    `peak_rss` is the most memory that it had at a time, in bytes, and `cpu` for how many seconds it computed; None
    where that is not known. `foreign`: it was not our child but the process in which a worker lived; `unseen`: how
    it ended only its parent knows.
    """

    code: int
    peak_rss: int | None = None
    cpu: float | None = None
    foreign: bool = False
    unseen: bool = False

    @property
    def clean(self) -> bool:
        """Whether it ended as it should."""
        return self.code == 0

    @property
    def signal_name(self) -> str | None:
        """The signal that ended it; None where it exited by itself."""
        if self.code >= 0:
            return None
        try:
            return signal.Signals(-self.code).name
        except ValueError:
            return f"signal {-self.code}"

    def __str__(self) -> str:
        if self.unseen:
            return "its process is gone, and how it ended is not known"
        if (name := self.signal_name) is None:
            return f"its process exited with status {self.code}"
        hint = " (often the kernel's out-of-memory killer)" if name == "SIGKILL" else ""
        return f"its process was ended by {name}{hint}"


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
    def claim_log(self) -> ClaimLogReader:
        """What it has in hand, readable also after its death."""
        ...

    async def wait(self) -> Exit:
        """Return how it ended, once it has."""
        ...

    @property
    def killable(self) -> bool:
        """Whether it is ours to kill; one that is not is only asked to end."""
        ...

    def kill(self) -> None:
        """End it at once."""
        ...

    async def stacks(self) -> str:
        """Return where its threads are, as well as that can be known."""
        ...

    async def seen_from_outside(self) -> Mapping[str, str]:
        """Return what can be seen of it, alive, without its help: texts by name."""
        ...

    def remains(self) -> Mapping[str, str]:
        """Return what it has written down for others by now, dead or alive, as texts by name."""
        ...

    def forget(self) -> None:
        """Remove what it left behind on disk."""
        ...


class Launcher(Protocol):
    """Starts children."""

    @property
    def isolates(self) -> bool:
        """Whether each group of suspects has a process of its own."""
        ...

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
    started_boot: float = 0.0
    started_at: datetime = _LONG_AGO
    warm: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it has heard of an accepted beat, and with it of what it is to adopt: it works now."""
    greeted: bool = False
    """Whether it has said hello: if it is starting still, it waits for the store to register it."""
    failed: bool = False  # whether it could not start
    ended_attempts: int = 0
    waiting: int = 0  # how many of its jobs wait for the results of others, where it has no place left
    lag: float | None = None
    """Seconds that its event loop was late when it last gave a sign of life; None before it could tell."""
    slots: int = 1  # how many jobs it may run at a time
    began_with: int | None = None  # bytes of memory that it took when it began to work, where that is watched
    store_id: str | None = None  # which store it was registered in, where that is known
    disowned: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it says that the store does not know it any more; `had` are the jobs that it had then."""
    had: tuple[InvolvedJob, ...] = ()
    lost: bool = False  # whether others have buried it
    dropped: bool = False
    """Whether nobody beats for it any more, as it should have ended and its process is not ours to kill."""
    retired: bool = False  # whether it said that it leaves of its own accord; `worked`: after it has run something
    worked: bool = False
    verdict: str = ""  # what it said, or was found, to be its trouble
    incident: str = ""  # under which id its end is kept, if that is an incident
    incident_told: bool = False  # whether others know that id by now, so that it must not change any more
    where: str = ""  # where in the user's code it hung, as far as that is known
    portrait: Mapping[str, str] | None = None  # how it was found when it hung: texts by name
    stuck: set[ClaimRef] = field(default_factory=set)
    told: Mapping[ClaimRef, float] = field(default_factory=dict)
    """Claims whose job was cancelled, and since which boot time it has been told so; they go on as long as they are
    here."""
    unanswered_for: float = 0.0
    polled_at: datetime | None = None
    place: ChildSlot | None = None  # where it works; None for a child that runs suspects
    replace: asyncio.Event = field(default_factory=asyncio.Event)  # set when another child should take its place
    relieves: "Child | None" = None
    successor: "Child | None" = None  # the child that takes its place, where one was started before it was needed
    gone: asyncio.Event = field(default_factory=asyncio.Event)  # set when its process has ended
    killed_to_stop: bool = False  # whether it was ended though there is nothing wrong with it
    _pictured: asyncio.Future[str] | None = None
    _killings: dict[ClaimRef, asyncio.Future[Killed]] = field(default_factory=dict)
    _executioner: asyncio.TimerHandle | None = None

    @property
    def worker(self) -> str:
        """The worker incarnation that this child is."""
        return self.spec.worker

    @property
    def beaten_for(self) -> bool:
        """Whether its supervisor keeps its lease."""
        return self.phase is not Phase.STARTING and not (self.lost or self.dropped)

    @property
    def has_claimed(self) -> bool:
        """Whether it has asked for jobs and been answered."""
        return read_claim_log(self.process.claim_log).closed_call > 0

    @property
    def runs_cancelled_only(self) -> bool:
        """Whether all that it has left are jobs that were told to end because they were cancelled."""
        held = read_claim_log(self.process.claim_log).held
        return bool(held) and held <= self.told.keys()

    def beat(self, memory: int | None = None, now: float | None = None) -> WorkerBeat:
        """Return its beat, from its notes: no help of the child is needed. Given the boot time, say how it is."""
        noted = read_claim_log(self.process.claim_log)
        vitals = None if now is None else self._vitals(noted, memory, now)
        return WorkerBeat(self.worker, noted.closed_call, noted.held, self.polled_at, vitals)

    def tell_cancelled(self, refs: Iterable[ClaimRef], now: float) -> None:
        """Take note of the claims that it is told of, at this boot time, because their jobs were cancelled."""
        self.told = {ref: self.told.get(ref, now) for ref in refs}

    def _vitals(self, noted: LoggedClaims, memory: int | None, now: float) -> Vitals:
        pulse_age = round(max(now - self.pulse_at, 0.0), 3)
        going_on = ((ref.job_id, round(now - at, 1)) for ref, at in self.told.items() if ref in noted.held)
        told = dict(islice(going_on, MOST_TOLD))
        running = len(noted.running)
        return Vitals(memory, running, self.slots, self.lag, pulse_age, self.ended_attempts, self.waiting, told)

    async def picture(self, within: float) -> str:
        """Return where its coroutines are, if its event loop can still tell. Raises TimeoutError if not."""
        if self._pictured is None or self._pictured.done():
            self._pictured = asyncio.get_running_loop().create_future()
            self.process.channel.send(Picture())
        async with asyncio.timeout(within):
            return await asyncio.shield(self._pictured)

    async def kill_job(self, ref: ClaimRef, within: float) -> bool:
        """Have the process of a job killed; tell whether that can be. Raises TimeoutError if there is no answer."""
        answer = self._killings.setdefault(ref, asyncio.get_running_loop().create_future())
        self.process.channel.send(Kill(ref.job_id, ref.fence))
        async with asyncio.timeout(within):
            return not (await asyncio.shield(answer)).shares

    def answered(self, word: Pictured | Killed) -> None:
        """Take its answer to what it was asked."""
        if isinstance(word, Killed):
            asked = self._killings.pop(ClaimRef(word.job_id, word.fence), None)
            if asked is not None:
                asked.set_result(word)
        elif self._pictured is not None and not self._pictured.done():
            self._pictured.set_result(word.tasks)

    def ask_to_leave(self, grace: float, patience: float = 0.0) -> None:
        """Let it finish what runs, for a while undisturbed, then within the grace; another may take its place."""
        self._leave(Stop(grace, patience), patience + grace)

    def part_with(self, grace: float) -> None:
        """Replace it, as others have buried it: it starts nothing more, and its claims are gone."""
        self.lost = True
        self._leave(Buried(), grace)

    def _leave(self, word: Stop | Buried, within: float) -> None:
        self.phase = Phase.LEAVING
        self.replace.set()
        self.process.channel.send(word)
        loop = asyncio.get_running_loop()
        kill_at = loop.time() + within + KILL_AFTER_GRACE
        if self._executioner is None or kill_at < self._executioner.when():
            self._dismiss_executioner()
            self._executioner = loop.call_at(kill_at, self.kill_to_stop)

    def _dismiss_executioner(self) -> None:
        if self._executioner is not None:
            self._executioner.cancel()

    def kill_to_stop(self) -> None:
        """End it at once, though there is nothing wrong with it."""
        self.killed_to_stop = True
        self.kill()

    def kill(self) -> None:
        """End it at once. One that is not ours to kill is dropped: its lease runs out, another takes its place."""
        self.process.kill()
        if not self.process.killable:
            self.dropped = True
            if self.phase is Phase.WORKING:
                self.phase = Phase.LEAVING
            self.replace.set()

    def ended(self) -> None:
        """Let go of it: its process is gone."""
        self.process.channel.close()
        self._dismiss_executioner()
        self.replace.set()
        self.gone.set()

    def death(self, end: Exit) -> Death:
        """Return what its end means for its claims."""
        noted = read_claim_log(self.process.claim_log)
        if self.stuck:
            return Death(
                DeathKind.CRASHED, frozenset(self.stuck) & noted.running, naming(self.verdict, self.incident)
            )
        asked = self.phase is Phase.LEAVING or self.retired
        hung = self.portrait is not None
        if self.killed_to_stop or (asked and (end.clean or (end.foreign and not hung))):
            return Death(DeathKind.STOPPED)
        how = "" if hung and self.verdict else str(end)  # it was killed for what is told
        evidence = "; ".join(filter(None, [how, self.verdict]))
        return Death(DeathKind.CRASHED, noted.running, naming(evidence, self.incident))
