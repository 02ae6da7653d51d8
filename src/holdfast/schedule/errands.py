"""What can be done with schedules: each an errand of a few verbs, the last of which changes all or nothing.

Whoever changes a schedule has read it before; if another was faster, it is read again and decided anew.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import TypeVar
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from holdfast.core.record import Cause, Change, Decision, Fire, Kind, Record
from holdfast.core.states import FINAL, State
from holdfast.errors import (
    ConfigurationError,
    JobStateError,
    ScheduleExistsError,
    ScheduleNotFoundError,
    ScheduleUnreadableError,
    StoreError,
)
from holdfast.policy.problems import refuse_any, routing_problems
from holdfast.schedule.deciding import Decided, decide, pause, remembered, replan, unfinished
from holdfast.schedule.plan import Plan, Run, Schedule, Template, encode_plan, read_schedule, read_schedules
from holdfast.schedule.rules import AnyRule, Rule
from holdfast.spelling import nearest
from holdfast.store.errand import Verbs, errand
from holdfast.store.protocol import Store

T = TypeVar("T")

log = logging.getLogger(__name__)

TRIES = 20
"""How often a change is tried anew where others were faster."""

Judge = Callable[[Schedule, datetime, Mapping[str, State]], Decided]
"""Decides what becomes of a schedule as it is now."""


def store_now(verbs: Store) -> Verbs[datetime]:
    """Return the store's own time."""
    looked = yield verbs.due_records(Kind.SCHEDULE, timedelta(), 0)
    now: datetime = looked.now
    return now


def find(verbs: Store, name: str) -> Verbs[Schedule]:
    """Return a schedule. Raises ScheduleNotFoundError."""
    records = yield verbs.records(Kind.SCHEDULE, (name,))
    if records:
        return read_schedule(records[0])
    others: tuple[Record, ...] = yield verbs.records(Kind.SCHEDULE)
    meant = nearest(str(name), [other.name for other in others])
    hint = "`holdfast schedules list` shows those that there are" if meant is None else f"did you mean {meant!r}?"
    raise ScheduleNotFoundError(f"there is no schedule {name!r}; {hint}")


@errand
def get(verbs: Store, name: str) -> Verbs[Schedule]:
    """Return a schedule. Raises ScheduleNotFoundError."""
    return (yield from find(verbs, name))


@errand
def list_all(verbs: Store) -> Verbs[tuple[Schedule, ...]]:
    """Return all schedules that can be read here, by name; the log tells of the others."""
    records = yield verbs.records(Kind.SCHEDULE)
    schedules, unreadable = read_schedules(records)
    for error in unreadable:
        log.warning("%s", error)
    return tuple(schedules)


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


@errand
def edit(
    verbs: Store,
    name: str,
    ahead: timedelta,
    rule: AnyRule | Callable[[AnyRule], AnyRule] | None,
    job: Callable[[Template], Template] | None,
) -> Verbs[Schedule]:
    """Change the rule, the job or both; what was fired ahead of its time by the old ones is taken back."""

    def changed(schedule: Schedule, now: datetime, states: Mapping[str, State]) -> Decided:
        plan = schedule.plan
        template = plan.job if job is None else job(plan.job)
        other = plan.rule if rule is None else rule if isinstance(rule, Rule) else rule(plan.rule)
        _check_edited(name, other, template)
        return replan(schedule, replace(plan, rule=other, job=template), now, ahead, states)

    if not (rule is None or isinstance(rule, Rule) or callable(rule)):
        raise ConfigurationError(
            f'schedule {name!r} needs a rule such as Cron("0 2 * * *") or Every(300), not {rule!r:.80}'
        )
    return (yield from rejudge(verbs, name, changed))


def _check_edited(name: str, rule: object, job: object) -> None:
    """Refuse what functions have made of a schedule where nobody could read or run it any more."""
    if not isinstance(rule, Rule):
        raise ConfigurationError(f"schedule {name!r}: what makes its new rule must return one, not {rule!r:.80}")
    if not isinstance(job, Template):
        raise ConfigurationError(f"schedule {name!r}: what makes its new job must return one, not {job!r:.80}")
    refuse_any(routing_problems(job.queue, job.priority, job.max_attempts))
    try:
        msgspec.json.decode(msgspec.json.encode(job), type=Template)
    except (msgspec.MsgspecError, TypeError) as error:
        raise ConfigurationError(f"schedule {name!r}: its new job cannot be stored: {error}") from error


@errand
def pause_one(verbs: Store, name: str, why: str | None) -> Verbs[Schedule]:
    """Let it fire no more until it is resumed; repeated, do nothing."""

    def paused(schedule: Schedule, now: datetime, states: Mapping[str, State]) -> Decided:
        if schedule.plan.paused_at is not None:
            return Decided(schedule.plan, None)
        return pause(schedule, now, why, states)

    return (yield from rejudge(verbs, name, paused))


@errand
def resume(verbs: Store, name: str, ahead: timedelta) -> Verbs[Schedule]:
    """Let a paused schedule fire again, from now on: what was planned meanwhile is not made up for."""

    def resumed(schedule: Schedule, now: datetime, states: Mapping[str, State]) -> Decided:
        if schedule.plan.paused_at is None:
            return decide(schedule, now, ahead, states)
        runs = unfinished(schedule.plan.runs, states)
        plan = replace(schedule.plan, paused_at=None, paused_why=None, runs=runs)
        return replan(schedule, plan, now, ahead, states)

    return (yield from rejudge(verbs, name, resumed))


@errand
def trigger(verbs: Store, name: str) -> Verbs[str]:
    """Fire once, now, whatever the rule says; return the id of the job."""

    def triggered(schedule: Schedule, now: datetime, states: Mapping[str, State]) -> Decided:
        plan = schedule.plan
        heeded = FINAL - {State.DEAD} if plan.rule.pause_on_failure else FINAL
        known = [run for run in plan.runs if states.get(run.job_id, State.COMPLETED) not in heeded]
        new = plan.job.job(name, now, now)
        fire = Fire(name, now, Decision.FIRED, Cause.TRIGGER, job_id=new.id, note="triggered by hand")
        runs = (*remembered(known, now), Run(new.id, now))
        return Decided(replace(plan, runs=runs), schedule.due_at, (fire,), (new,))

    schedule = yield from rejudge(verbs, name, triggered)
    return schedule.plan.runs[-1].job_id


@errand
def delete(verbs: Store, name: str) -> Verbs[None]:
    """Forget a schedule and its fires; jobs that it has fired ahead of their time are cancelled."""

    def ended(schedule: Schedule, now: datetime, states: Mapping[str, State]) -> Decided:
        return pause(schedule, now, None, states)

    try:
        yield from rejudge(verbs, name, ended, forget=True)
    except ScheduleUnreadableError:  # nobody here knows more of it than its name
        (record,) = yield verbs.records(Kind.SCHEDULE, (name,))
        change = Change(Kind.SCHEDULE, name, record.version, str(uuid4()), None, after=record.token)
        if not (yield from write_change(verbs, change)):
            raise


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
