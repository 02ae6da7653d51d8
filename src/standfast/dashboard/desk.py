"""The desk: where whoever came in asks for operations, and gets them if they may."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar
from uuid import uuid4

from standfast.core.record import Kind
from standfast.dashboard.access.user import Role, User
from standfast.dashboard.audit.entry import Entry
from standfast.dashboard.audit.telling import told
from standfast.dashboard.audit.thinning import Thinning, is_told
from standfast.dashboard.audit.trail import write_down
from standfast.dashboard.ending import to_its_end
from standfast.dashboard.operation import Answer, Asked, Operation
from standfast.dashboard.refusals import NotAllowedError
from standfast.dashboard.shared import Shared
from standfast.dashboard.turns import Turns
from standfast.errors import StandfastError
from standfast.phrases import Phrase
from standfast.settings import Loaded, Settings
from standfast.store.backend import Backend
from standfast.store.errand import Errand, arun_errand
from standfast.store.protocol import Store
from standfast.store.verb import Verb

T = TypeVar("T")

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
class Office:
    """What all desks of one dashboard share: the store, its settings, what was seen and refused, turns."""

    shown: Shown
    read_only: bool = False
    shared: Shared = field(default_factory=Shared)
    refused: Thinning = field(default_factory=Thinning)
    searching: Turns = field(default_factory=lambda: Turns(SEARCHES))

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
        await arun_errand(self.backend.arun, write_down(self.backend.verbs, entry))

    def desk(self, user: User, by: str = "page", *, fresh: bool = False) -> "Desk":
        """Return a desk for somebody who came in by pages or by the API.

        With `fresh` nothing that others saw a moment ago is shown there: they may have seen it before a change.
        """
        return Desk(self, user, by, Shared() if fresh else self.shared)


class Desk:
    """One person's desk. Operations get what they need from it, and from nowhere else."""

    def __init__(self, office: Office, user: User, by: str, shared: Shared) -> None:
        self.office = office
        self.user = user
        self._by = by
        self._shared = shared
        self._deed: _Deed | None = None

    @property
    def verbs(self) -> Store:
        """What the store can do; run it with `ask`."""
        return self.office.backend.verbs

    async def ask(self, verb: Verb[T] | Errand[T]) -> T:
        """Run a verb or an errand, without sharing its answer."""
        if isinstance(verb, Errand):
            return await arun_errand(self.office.backend.arun, verb)
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
