"""What errands about schedules are made of: a few verbs, the last of which changes all or nothing.

Whoever changes a schedule has read it before; if another was faster, it is read again and decided anew.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from uuid import uuid4

from standfast.core.record import Change, Kind, Record
from standfast.core.states import State
from standfast.errors import (
    ConfigurationError,
    JobStateError,
    ScheduleExistsError,
    ScheduleNotFoundError,
    StoreError,
)
from standfast.phrases import Phrase
from standfast.schedule.deciding import Decided, decide
from standfast.schedule.plan import Plan, Schedule, Template, encode_plan, read_schedule
from standfast.schedule.rules import AnyRule
from standfast.spelling import nearest
from standfast.store.errand import Verbs, errand
from standfast.store.protocol import Store, ask_time

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
    meant = nearest(str(name), [other.name for other in others])
    if meant is None:
        raise ScheduleNotFoundError(Phrase("refusal.no_schedule", schedule=repr(name)))
    raise ScheduleNotFoundError(Phrase("refusal.no_schedule_but", schedule=repr(name), meant=repr(meant)))


@errand
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
