"""Runs operations: for whom, shared among those who look, written down when they change something.

What is done to its end, although whoever waits for it is told to stop meanwhile.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar
from uuid import uuid4
from weakref import WeakKeyDictionary

from standfast.admin.audit_trail import Entry, RepeatSampler, is_told, told, write_down
from standfast.admin.operation import Answer, Asked, NotAllowedError, Operation, Role, User
from standfast.errors import StandfastError
from standfast.model.configuration import Settings
from standfast.model.incidents import Incident
from standfast.model.phrases import Phrase
from standfast.model.records import Kind
from standfast.observe.alerts.board import Board
from standfast.observe.alerts.board_changes import read_board
from standfast.observe.catalogue import CatalogueView, read_catalogue
from standfast.observe.incidents import list_incidents
from standfast.observe.obstacles import Windows
from standfast.schedules.closed_hours import read_windows
from standfast.settings import Loaded
from standfast.stores.backend import Backend
from standfast.stores.contract import Store
from standfast.stores.values import Queue, QueueAges, Worker
from standfast.stores.verb import Procedure, Verb, arun_procedure

T = TypeVar("T")

PATIENCE = 5.0
"""Seconds for which a stop waits: a store that does not answer must not keep a process for ever."""


async def to_its_end(work: Awaitable[T]) -> T:
    """Return what comes of some work. A cancellation meanwhile counts when it is over, or lasts too long."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await wait_for_end(task)
        raise


async def wait_for_end(task: asyncio.Future[Any]) -> None:
    """Wait until something is over, however it ends and however often this is cancelled; not for ever."""
    until = time.monotonic() + PATIENCE
    while not task.done() and (left := until - time.monotonic()) > 0:
        try:
            await asyncio.wait({task}, timeout=left)
        except asyncio.CancelledError:  # who waits knows already
            continue
    if task.done() and not task.cancelled():
        task.exception()  # the news is that it was told to stop


# Answers that are shared: ten people who look at the same page at the same moment cost the store one look.

FRESH = 1.0
"""Seconds for which an answer counts as fresh."""

MOST = 256
"""So many answers are kept, at most."""


@dataclass(frozen=True, slots=True)
class _Look:
    fresh_until: float
    answer: asyncio.Task[Any]


class AnswerCache:
    """Remembers answers for a moment. Those of one event loop are of no use in another."""

    def __init__(self, fresh: float = FRESH, clock: Callable[[], float] = time.monotonic) -> None:
        self._fresh = fresh
        self._clock = clock
        self._looks: dict[Hashable, _Look] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    async def see(self, what: Hashable, look: Callable[[], Awaitable[T]], times: float = 1) -> T:
        """Return what somebody else has just seen, or is about to see, or else look.

        What is looked at here counts as fresh for so many `times` as long as usual.
        """
        now = self._clock()
        if self._loop is not asyncio.get_running_loop():
            self._loop, self._looks = asyncio.get_running_loop(), {}
        found = self._looks.get(what)
        if found is None or now > found.fresh_until or _failed(found.answer):
            self._make_room(now)
            found = self._looks[what] = _Look(now + times * self._fresh, asyncio.ensure_future(_awaited(look)))
        answer: T = await asyncio.shield(found.answer)
        return answer

    def forget(self) -> None:
        """Forget everything: something was changed."""
        self._looks.clear()

    def _make_room(self, now: float) -> None:
        stale = [what for what, look in self._looks.items() if now > look.fresh_until]
        for what in stale:
            del self._looks[what]
        while len(self._looks) >= MOST:
            del self._looks[next(iter(self._looks))]


def _failed(answer: asyncio.Task[Any]) -> bool:
    return answer.done() and (answer.cancelled() or answer.exception() is not None)


async def _awaited(look: Callable[[], Awaitable[T]]) -> T:
    return await look()


# Turns: of what costs much, only some is done at once, and the others wait.


class ConcurrencyLimit:
    """So many at once have their turn, in each event loop."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._rooms: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn, and have it."""
        async with self._rooms.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(self._at_once)):
            yield


# The desk: where whoever came in asks for operations, and gets them if they may.

SEARCHES = 2
"""So many look through arguments of jobs at the same time."""


class Shown(Protocol):
    """What the dashboard is about: an app, or a store and its settings."""

    @property
    def backend(self) -> Backend:
        """The open store; the first use opens it."""
        ...

    @property
    def settings(self) -> Settings:
        """The settings."""
        ...

    @property
    def settings_from(self) -> Mapping[str, str]:
        """Where each setting comes from."""
        ...


@dataclass(frozen=True, slots=True)
class Admin:
    """What all desks of one dashboard share: the store, its settings, what was seen and refused, turns."""

    shown: Shown
    read_only: bool = False
    shared: AnswerCache = field(default_factory=AnswerCache)
    refused: RepeatSampler = field(default_factory=RepeatSampler)
    searching: ConcurrencyLimit = field(default_factory=lambda: ConcurrencyLimit(SEARCHES))

    @property
    def backend(self) -> Backend:
        """The open store."""
        return self.shown.backend

    @property
    def loaded(self) -> Loaded:
        """The settings, with where they come from."""
        return Loaded(self.shown.settings, self.shown.settings_from)

    async def now(self) -> datetime:
        """Return the store's time."""
        return (await self.backend.arun(self.backend.verbs.due_records(Kind.SCHEDULE, timedelta(), 0))).now

    async def write_down(self, who: str, what: str, *, at: datetime | None = None, **more: Any) -> None:
        """Write down what somebody did, by the store's time unless given; the rest are fields of an `Entry`."""
        entry = Entry(at or await self.now(), who, what, **more)
        await arun_procedure(self.backend.arun, write_down(self.backend.verbs, entry))

    def desk(self, user: User, by: str = "page", *, fresh: bool = False) -> "OperationContext":
        """Return a desk for somebody who came in by pages or by the API.

        With `fresh` nothing that others saw a moment ago is shown there: they may have seen it before a change.
        """
        return OperationContext(self, user, by, AnswerCache() if fresh else self.shared)


@dataclass(frozen=True, slots=True)
class OpenStore:
    """A store that is open, and the settings that it was opened with."""

    backend: Backend
    settings: Settings
    settings_from: Mapping[str, str]


class AdminSession:
    """Runs operations for one user. Each of them looks at the store anew."""

    def __init__(self, shown: Shown, user: User, by: str) -> None:
        self._office = Admin(shown)
        self._user = user
        self._by = by
        self._loop = asyncio.Runner()

    @property
    def backend(self) -> Backend:
        """The open store."""
        return self._office.backend

    def run(self, operation: Operation[Asked, Answer], asked: Asked | None = None) -> Answer:
        """Return what an operation answers; where there is nothing to ask, `asked` may be left out."""
        return self._loop.run(self.arun(operation, asked))

    async def arun(self, operation: Operation[Asked, Answer], asked: Asked | None = None) -> Answer:
        """Do the same on the event loop that runs."""
        desk = self._office.desk(self._user, self._by, fresh=True)
        told = operation.asked() if asked is None else asked
        return await (desk.act(operation, told) if operation.changes else desk.read(operation, told))

    def close(self) -> None:
        """Close the event loop; the store stays open."""
        self._loop.close()


class OperationContext:
    """One person's desk. Operations get what they need from it, and from nowhere else."""

    def __init__(self, office: Admin, user: User, by: str, shared: AnswerCache) -> None:
        self.office = office
        self.user = user
        self._by = by
        self._shared = shared
        self._deed: _Deed | None = None

    @property
    def verbs(self) -> Store:
        """What the store can do; run it with `ask`."""
        return self.office.backend.verbs

    async def ask(self, verb: Verb[T] | Procedure[T]) -> T:
        """Run a verb or a procedure, without sharing its answer."""
        if isinstance(verb, Procedure):
            return await arun_procedure(self.office.backend.arun, verb)
        return await self.office.backend.arun(verb)

    async def recall(self, what: Hashable, look: Callable[[], Awaitable[T]], times: float = 1) -> T:
        """Return what a look showed a moment ago, whichever operation looked then, or else look.

        For what is of use to several operations, or may be so many `times` as old as answers usually are.
        """
        return await self._shared.see(("recalled", what), look, times)

    def may(self, operation: Operation[Asked, Answer]) -> bool:
        """Tell whether this person may use an operation here."""
        if operation.changes and self.office.read_only:
            return False
        return self.user.may(operation.name, operation.role)

    async def read(self, operation: Operation[Asked, Answer], asked: Asked) -> Answer:
        """Return what there is to see, from a moment ago if somebody else has just looked."""
        self._demand(operation)
        if not operation.shared:
            return await operation.run(self, asked)
        return await self._shared.see((operation.name, asked), lambda: operation.run(self, asked))

    async def act(self, operation: Operation[Asked, Answer], asked: Asked) -> Answer:
        """Do something, and write down who did it. What is refused is written down, too.

        Of what somebody may not do, and tries again and again, only some is: nobody fills the trail with that. What
        was ended early is written down as well, before that end is.
        """
        self._deed = deed = _Deed(operation.name, told(asked))
        try:
            self._demand(operation)
            answer = await operation.run(self, asked)
        except NotAllowedError as error:
            _, times = self.office.refused.count((self.user.name, operation.name))
            if is_told(times):
                often = Phrase("refused.often", why=str(error), times=times)
                await self._write_down(deed, str(error if times == 1 else often))
            raise
        except (Exception, asyncio.CancelledError) as error:
            await self._write_down(deed, _why(error))
            raise
        finally:
            self.office.shared.forget()
        await self._write_down(deed)
        return answer

    @property
    def entry(self) -> str | None:
        """The id of the entry in the trail in which what is done now is written down."""
        return None if self._deed is None else self._deed.id

    def go_on_with(self, entry: Entry) -> None:
        """Write what is done now down as the rest of what an entry tells of."""
        deed = self._deed
        if deed is not None:
            deed.id, deed.at, deed.asked = entry.id, entry.at, entry.asked

    def note(
        self, *, before: Phrase | str | None = None, after: Phrase | str | None = None, so_far: str | None = None
    ) -> None:
        """Say how it was before what is done now, and how it is after it: for those who ask who did it."""
        deed = self._deed
        if deed is not None:
            deed.so_far = deed.so_far if so_far is None else so_far
            deed.before = deed.before if before is None else str(before)
            deed.after = deed.after if after is None else str(after)

    async def write_ahead(self) -> None:
        """Write down what is noted so far: of what takes long, that it was begun, and how far it has come."""
        if self._deed is not None:
            await self._write_down(self._deed)

    def _demand(self, operation: Operation[Asked, Answer]) -> None:
        if operation.changes and self.office.read_only:
            raise NotAllowedError(Phrase("refusal.read_only"))
        if not self.may(operation):
            raise NotAllowedError(
                Phrase(
                    "refusal.role",
                    operation=operation.name,
                    needed=_named(operation.role),
                    user=self.user.name,
                    role=_named(self.user.role),
                )
            )

    async def _write_down(self, deed: "_Deed", error: str | None = None) -> None:
        words = {"before": deed.before, "after": deed.after, "error": error, "by": self._by, "so_far": deed.so_far}

        async def write() -> None:
            deed.at = deed.at or await self.office.now()
            more = {**words, "id": deed.id, "asked": deed.asked}
            await self.office.write_down(self.user.name, deed.what, at=deed.at, **more)

        await to_its_end(write())


@dataclass(slots=True)
class _Deed:
    """What is done at a desk now, and what is noted about it. `at` is when it was first written down."""

    what: str
    asked: Mapping[str, str]
    before: str | None = None
    after: str | None = None
    so_far: str = ""
    at: datetime | None = None
    id: str = field(default_factory=lambda: uuid4().hex)


def _why(error: BaseException) -> str:
    """Return why something ended, for the trail; of what nobody has foreseen, no more than what it was."""
    if isinstance(error, StandfastError):
        return str(error)
    if isinstance(error, asyncio.CancelledError):
        return str(Phrase("refused.ended_early"))
    return str(Phrase("refused.failed", error=type(error).__name__))


def _named(role: Role) -> Phrase:
    return Phrase(f"role_name.{role.name.lower()}")


# What several operations look at, once for all of them; what changes seldom is looked at seldom.

SELDOM = 10
"""So many times as old as usual an answer may be about what changes seldom, or is not what a page is about."""


async def all_ages(desk: OperationContext) -> tuple[QueueAges, float]:
    """Return how old queues are, and how many seconds this look at the store took."""

    async def look() -> tuple[QueueAges, float]:
        begun = time.monotonic()
        return await desk.ask(desk.verbs.queue_ages()), time.monotonic() - begun

    return await desk.recall("ages", look)


async def store_now(desk: OperationContext) -> datetime:
    """Return the store's time, a moment ago: that of a look that most pages take anyway."""
    return (await all_ages(desk))[0].now


async def all_workers(desk: OperationContext) -> tuple[Worker, ...]:
    """Return the registered workers, oldest first."""
    return await desk.recall("workers", lambda: desk.ask(desk.verbs.workers()))


async def all_queues(desk: OperationContext) -> tuple[Queue, ...]:
    """Return every queue that has jobs or is paused, by name."""
    return await desk.recall("queues", lambda: desk.ask(desk.verbs.queues()))


async def catalogue(desk: OperationContext) -> CatalogueView:
    """Return what workers have told of their apps."""
    return await desk.recall("catalogue", lambda: desk.ask(read_catalogue(desk.verbs)), SELDOM)


async def closed_hours(desk: OperationContext) -> Windows:
    """Return when queues and tasks are closed."""
    return read_windows(await desk.recall("windows", lambda: desk.ask(desk.verbs.records(Kind.WINDOW)), SELDOM))


async def late_incidents(desk: OperationContext) -> tuple[Incident, ...]:
    """Return all incidents, the newest first, as they were not long ago."""
    return await desk.recall("incidents", lambda: desk.ask(list_incidents(desk.verbs)), SELDOM)


async def board(desk: OperationContext) -> Board:
    """Return how alerts stand."""
    return await desk.recall("board", lambda: desk.ask(read_board(desk.verbs)))
