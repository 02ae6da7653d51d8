"""Schedules that are due are decided about, and fired.

One that cannot be decided about, or whose jobs the store does not take, stays due and is in nobody's way.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import compress

from msgspec.structs import replace

from standfast.core.record import Fire, Kind
from standfast.core.states import State
from standfast.errors import SchemaError, StoreFullError, StoreUnavailableError
from standfast.schedule.deciding import Decided, decide
from standfast.schedule.errands import change_of, states_of
from standfast.schedule.plan import Schedule, read_schedules
from standfast.store.errand import Verbs, errand
from standfast.store.protocol import DueRecords, Store

AT_ONCE = 100
"""How many schedules one look takes."""

SOON = timedelta(minutes=1)
"""How far a look sees, so as to know when to look next."""

LEAD = timedelta(seconds=1)
"""How long before it is due a schedule is decided about if there is a look anyway: many then share one."""

_OUTAGES = (StoreUnavailableError, StoreFullError, SchemaError)


@dataclass(frozen=True, slots=True)
class Fired:
    """What came of a look at the schedules that were due at the store's `now`, and when one is due next.

    `paused` are those that have paused themselves. `troubles` tell of those that nobody here can read, decide about
    or write; they stay due.
    """

    now: datetime
    fires: tuple[Fire, ...] = ()
    paused: tuple[Schedule, ...] = ()
    troubles: tuple[str, ...] = ()
    next_due_at: datetime | None = None


@errand
def fire_due(verbs: Store, ahead: timedelta) -> Verbs[Fired]:
    """Decide about the schedules that are due, at most AT_ONCE. Where another was faster, it has done it."""
    batch, left = yield from _due_soon(verbs, min(LEAD, ahead / 10))
    states = yield from states_of(verbs, batch.schedules)
    batch.decide(ahead, states)
    yield from batch.write(verbs)
    return Fired(
        batch.now,
        fires=tuple(fire for _, each in batch.written for fire in each.fires),
        paused=tuple(
            replace(schedule, plan=each.plan) for schedule, each in batch.written if each.plan.paused_at is not None
        ),
        troubles=tuple(batch.troubles),
        next_due_at=min({*left, *batch.due_next}, default=None),
    )


def _due_soon(verbs: Store, lead: timedelta) -> "Verbs[tuple[_Batch, set[datetime]]]":
    """Return the schedules to decide about, and when others are due."""
    limit = AT_ONCE
    while True:
        due: DueRecords = yield verbs.due_records(Kind.SCHEDULE, SOON, limit)
        soon, unreadable = read_schedules(due.records)
        if len(due.records) < limit or len(unreadable) * 2 <= limit:
            break
        limit *= 2  # those that nobody can read stay due, and must not hide the others
    schedules = [each for each in soon if each.due_at is not None and each.due_at <= due.now + lead][:AT_ONCE]
    left = {each.due_at for each in soon[len(schedules) :] if each.due_at is not None}
    if len(due.records) == limit and len(schedules) == len(soon):
        left = {due.now}  # there may be more
    return _Batch(due.now, lead, schedules, list(map(str, unreadable))), left


@dataclass(slots=True)
class _Batch:
    """The schedules of one look, while they are decided about and written."""

    now: datetime
    lead: timedelta
    schedules: Sequence[Schedule]
    troubles: list[str]
    decided: list[tuple[Schedule, Decided]] = field(default_factory=list)
    written: list[tuple[Schedule, Decided]] = field(default_factory=list)
    due_next: set[datetime] = field(default_factory=set)

    def decide(self, ahead: timedelta, states: Mapping[str, State]) -> None:
        """Decide about each. One that is not due yet, and of which nothing comes, is left as it is."""
        for schedule in self.schedules:
            assert schedule.due_at is not None
            try:
                decided = decide(schedule, self.now, ahead, states, lead=self.lead)
            except Exception as error:  # noqa: BLE001 - the others are not to suffer for it
                self.give_up(schedule, error)
                continue
            if schedule.due_at <= self.now or decided.fires or decided.cancels:
                self.decided.append((schedule, decided))
            else:
                self.due_next.add(schedule.due_at)

    def write(self, verbs: Store) -> Verbs[None]:
        """Write what was decided, together or, where the store does not take that, one by one."""
        if not self.decided:
            return
        try:
            yield from self.write_together(verbs, self.decided)
        except _OUTAGES:
            raise
        except Exception:  # noqa: BLE001 - one of them is to blame, and told of below
            for each in self.decided:
                try:
                    yield from self.write_together(verbs, [each])
                except _OUTAGES:
                    raise
                except Exception as error:  # noqa: BLE001 - the others are not to suffer for it
                    self.give_up(each[0], error)

    def write_together(self, verbs: Store, decided: Sequence[tuple[Schedule, Decided]]) -> Verbs[None]:
        """Write all or nothing; what another was faster with is written already."""
        made = yield verbs.change_records([change_of(*each) for each in decided])
        self.written += compress(decided, made)
        self.due_next |= {each.due_at for _, each in decided if each.due_at is not None}

    def give_up(self, schedule: Schedule, error: Exception) -> None:
        """Leave a schedule due, for whoever knows better."""
        self.troubles.append(f"schedule {schedule.name!r} could not be fired: {type(error).__name__}: {error}")
