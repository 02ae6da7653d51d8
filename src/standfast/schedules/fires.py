"""What procedures about schedules are made of: a few verbs, the last of which changes all or nothing.

Whoever changes a schedule has read it before; if another was faster, it is read again and decided anew.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import compress
from uuid import uuid4

from msgspec.structs import replace

from standfast.errors import (
    ConfigurationError,
    JobStateError,
    ScheduleExistsError,
    ScheduleNotFoundError,
    SchemaError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
)
from standfast.model.phrases import Phrase
from standfast.model.records import Change, Fire, Kind, Record
from standfast.model.states import State
from standfast.model.suggestions import closest_name
from standfast.schedules.decision import Decided, decide
from standfast.schedules.rules import AnyRule
from standfast.schedules.schedule import Plan, Schedule, Template, encode_plan, read_schedule, read_schedules
from standfast.stores.contract import Store, ask_time
from standfast.stores.values import DueRecords
from standfast.stores.verb import Verbs, procedure

TRIES = 20
"""How often a change is tried anew where others were faster."""

Judge = Callable[[Schedule, datetime, Mapping[str, State]], Decided]
"""Decides what becomes of a schedule as it is now."""


def store_now(verbs: Store) -> Verbs[datetime]:
    """Return the store's own time."""
    looked = yield ask_time(verbs)
    now: datetime = looked.now
    return now


def find(verbs: Store, name: str) -> Verbs[Schedule]:
    """Return a schedule. Raises ScheduleNotFoundError."""
    records = yield verbs.records(Kind.SCHEDULE, (name,))
    if records:
        return read_schedule(records[0])
    others: tuple[Record, ...] = yield verbs.records(Kind.SCHEDULE)
    meant = closest_name(str(name), [other.name for other in others])
    if meant is None:
        raise ScheduleNotFoundError(Phrase("refusal.no_schedule", schedule=repr(name)))
    raise ScheduleNotFoundError(Phrase("refusal.no_schedule_but", schedule=repr(name), meant=repr(meant)))


@procedure
def create(verbs: Store, name: str, rule: AnyRule, job: Template, ahead: timedelta) -> Verbs[Schedule]:
    """Make a schedule that fires from now on. Raises ScheduleExistsError where there is one of that name."""
    now = yield from store_now(verbs)
    schedule = Schedule(name, 0, Plan(rule, job, created_at=now, cursor=now))
    if next(rule.times_after(now, schedule.ground), None) is None:
        raise ConfigurationError(
            f"schedule {name!r} would never fire: none of its times is still to come; choose later ones"
        )
    decided = decide(schedule, now, ahead, {})
    change = change_of(schedule, decided)
    if not (yield from write_change(verbs, change)):
        raise ScheduleExistsError(
            f"there is a schedule {name!r} already: edit that one, delete it first, or choose another name"
        )
    return Schedule(name, 1, decided.plan, decided.due_at, change.token)


def rejudge(verbs: Store, name: str, judge: Judge, *, forget: bool = False) -> Verbs[Schedule]:
    """Read a schedule, judge, and write what was decided, or forget it; anew while others are faster."""
    for _ in range(TRIES):
        schedule = yield from find(verbs, name)
        now = yield from store_now(verbs)  # after it was read: what others decide until now shows in its version
        states = yield from states_of(verbs, [schedule])
        decided = judge(schedule, now, states)
        change = change_of(schedule, decided, forget=forget)
        if (yield from write_change(verbs, change)):
            return Schedule(name, schedule.version + 1, decided.plan, decided.due_at, change.token)
    raise changed_by_others(name)


def changed_by_others(name: str) -> StoreError:
    """Return the error of who has tried in vain."""
    return StoreError(f"schedule {name!r} was changed by others again and again: try again")


def states_of(verbs: Store, schedules: Iterable[Schedule]) -> Verbs[Mapping[str, State]]:
    """Return the states of the runs of schedules."""
    jobs = [run.job_id for schedule in schedules for run in schedule.plan.runs]
    if not jobs:
        return {}
    glances = yield verbs.glance(jobs)
    return {job_id: glance.state for job_id, glance in glances.items()}


def write_change(verbs: Store, change: Change) -> Verbs[bool]:
    """Write a change; tell whether it was written, and not refused because others were faster."""
    try:
        (made,) = yield verbs.change_records([change])
    except JobStateError:  # a worker has taken a job meanwhile that was to be withdrawn
        return False
    return bool(made)


def change_of(schedule: Schedule, decided: Decided, *, forget: bool = False) -> Change:
    """Return what is to be written of a decision."""
    return Change(
        Kind.SCHEDULE,
        schedule.name,
        schedule.version,
        str(uuid4()),
        None if forget else encode_plan(decided.plan),
        decided.due_at,
        () if forget else decided.fires,
        decided.jobs,
        decided.cancels,
        decided.withdraws,
        after=schedule.token,
    )


# A schedule that cannot be decided about, or whose jobs the store does not take, stays due and is in nobody's way.

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


@procedure
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
