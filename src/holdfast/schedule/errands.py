"""What can be done with schedules: each an errand of a few verbs, the last of which changes all or nothing.

Whoever changes a schedule has read it before; if another was faster, it is read again and decided anew.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import TypeVar
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from holdfast.core.record import FIRES_KEPT, Cause, Change, Decision, Fire, Kind, Record
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
from holdfast.schedule.options import moment_problems
from holdfast.schedule.plan import Plan, Run, Schedule, Template, encode_plan, read_schedule, read_schedules
from holdfast.schedule.rules import AnyRule, Rule
from holdfast.spelling import nearest
from holdfast.store.errand import Verbs, errand
from holdfast.store.protocol import DueRecords, Store

T = TypeVar("T")

log = logging.getLogger(__name__)

TRIES = 20
"""How often a change is tried anew where others were faster."""

AT_ONCE = 100
"""How many schedules one look takes, and how many jobs one step of a backfill enqueues."""

SOON = timedelta(minutes=1)
"""How far a look sees, so as to know when to look next."""

MOST_BACKFILLED = 100_000
"""How many fires a backfill may have: more is a mistake in the range."""

Judge = Callable[[Schedule, datetime, Mapping[str, State]], Decided]
"""Decides what becomes of a schedule as it is now."""

_SECOND_MOMENT = datetime.min.replace(tzinfo=UTC) + timedelta.resolution
_ON_TIME = frozenset({Decision.FIRED, Decision.CAUGHT_UP, Decision.QUEUED})


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
    made = yield from _change(verbs, change_of(schedule, decided))
    if not made:
        raise ScheduleExistsError(
            f"there is a schedule {name!r} already: edit that one, delete it first, or choose another name"
        )
    return Schedule(name, 1, decided.plan, decided.due_at)


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
        change = Change(Kind.SCHEDULE, name, record.version, str(uuid4()), None)
        if not (yield from _change(verbs, change)):
            raise


@errand
def backfill(
    verbs: Store,
    name: str,
    since: datetime,
    until: datetime,
    *,
    again: bool,
    progress: Callable[[int, int], None],
) -> Verbs[int]:
    """Enqueue a job for each planned time of a past range that was not fired, or with `again` for each of them.

    They run as soon as there is room; their planned time is that of the range. Returns how many there were.
    """
    wanted = yield from _times_to_fill(verbs, name, since, until, again=again)
    filled = 0
    for start in range(0, len(wanted), AT_ONCE):
        progress(start, len(wanted))
        filled += yield from _fill(verbs, name, wanted[start : start + AT_ONCE], again=again)
    progress(len(wanted), len(wanted))
    return filled


@errand
def backfill_times(
    verbs: Store, name: str, since: datetime, until: datetime, *, again: bool
) -> Verbs[tuple[datetime, ...]]:
    """Return the planned times for which a backfill would enqueue a job, and enqueue nothing."""
    return tuple((yield from _times_to_fill(verbs, name, since, until, again=again)))


def _times_to_fill(
    verbs: Store, name: str, since: datetime, until: datetime, *, again: bool
) -> Verbs[list[datetime]]:
    """Return those of a past range that are not excluded, and not fired unless `again`.

    Of a schedule that goes on, those that are not decided yet are left out: it fires them itself, or lets them go.
    """
    refuse_any([*moment_problems("since", since), *moment_problems("until", until)])
    now = yield from store_now(verbs)
    schedule = yield from find(verbs, name)
    if since > until:
        raise ConfigurationError(
            f"the range ends before it begins: until ({until.isoformat()}) must not be before since"
            f" ({since.isoformat()})"
        )
    if until > now:
        raise ConfigurationError(
            f"the range must be over, and until ({until.isoformat()}) is still to come"
            f" (now: {now.isoformat(timespec='seconds')}): the schedule itself fires what comes"
        )
    rule, last = schedule.plan.rule, min(until, schedule.plan.cursor) if schedule.plan.active else until
    after = rule.times_after(max(since, _SECOND_MOMENT) - timedelta.resolution, schedule.ground)
    times = list(islice(takewhile(lambda time: time <= last, after), MOST_BACKFILLED + 1))
    if len(times) > MOST_BACKFILLED:
        raise ConfigurationError(f"the range has more than {MOST_BACKFILLED:,} planned times: choose a shorter one")
    fired = set[datetime]()
    if not again:
        fired = yield from _all_fired(verbs, name, since)
    return [time for time in times if time not in fired and rule.excluded(time) is None]


def _fill(verbs: Store, name: str, times: Sequence[datetime], *, again: bool) -> Verbs[int]:
    """Enqueue jobs for these times, but unless `again` none that another backfill has enqueued meanwhile."""
    for _ in range(TRIES):
        schedule = yield from find(verbs, name)
        now = yield from store_now(verbs)
        fired = set[datetime]()
        if not again:
            fired, _ = yield from _fired(verbs, name, times[0], times[-1] + timedelta.resolution)
        left = [time for time in times if time not in fired]
        made = yield from _change(verbs, change_of(schedule, _backfilled(schedule, left, now)))
        if made:
            return len(left)
    raise _changed_by_others(name)


def _backfilled(schedule: Schedule, times: Sequence[datetime], now: datetime) -> Decided:
    jobs = [schedule.plan.job.job(schedule.name, time, now) for time in times]
    fires = [
        Fire(schedule.name, time, Decision.FIRED, Cause.BACKFILL, job_id=job.id, note="backfilled")
        for time, job in zip(times, jobs, strict=True)
    ]
    return Decided(schedule.plan, schedule.due_at, tuple(fires), tuple(jobs))


def _all_fired(verbs: Store, name: str, since: datetime) -> Verbs[set[datetime]]:
    """Return the planned times from `since` on whose job was enqueued.

    Raises ConfigurationError where fires are not kept from so long ago: nobody knows what was fired then.
    """
    found, oldest = yield from _fired(verbs, name, since, None)
    if oldest is not None:
        raise ConfigurationError(
            f"what schedule {name!r} has fired is known from {oldest.isoformat()} on, and the range begins before"
            " that: begin it there, or say again (--again), for all of its times, fired or not"
        )
    return found


def _fired(
    verbs: Store, name: str, since: datetime, before: datetime | None
) -> Verbs[tuple[set[datetime], datetime | None]]:
    """Return the planned times whose job was enqueued; and since when that is known, if not for all of them."""
    found, kept = set[datetime](), 0
    while True:
        fires: tuple[Fire, ...] = yield verbs.fires(name, AT_ONCE, before)
        found |= {fire.planned for fire in fires if fire.decision in _ON_TIME}
        kept += len(fires)
        if fires and fires[-1].planned < since:
            return found, None
        if fires:
            before = fires[-1].planned
        if len(fires) < AT_ONCE:
            return found, before if kept >= FIRES_KEPT else None


@dataclass(frozen=True, slots=True)
class Look:
    """A look at the schedules that were due at the store's `now`, what came of it, and when one is due next.

    `paused` are those that have paused themselves, `unreadable` what is wrong with those that mean nothing here.
    """

    now: datetime
    fires: tuple[Fire, ...] = ()
    paused: tuple[Schedule, ...] = ()
    unreadable: tuple[ScheduleUnreadableError, ...] = ()
    next_due_at: datetime | None = None


@errand
def fire_due(verbs: Store, ahead: timedelta) -> Verbs[Look]:
    """Decide about the schedules that are due, at most AT_ONCE. Where another was faster, it has done it."""
    soon, unreadable, limit = list[Schedule](), list[ScheduleUnreadableError](), AT_ONCE
    while True:
        due: DueRecords = yield verbs.due_records(Kind.SCHEDULE, SOON, limit)
        soon, unreadable = read_schedules(due.records)
        if len(due.records) < limit or len(unreadable) * 2 <= limit:
            break
        limit *= 2  # those that nobody can read stay due, and must not hide the others
    schedules = [each for each in soon if each.due_at is not None and each.due_at <= due.now][:AT_ONCE]
    later = {each.due_at for each in soon[len(schedules) :] if each.due_at is not None}
    if len(due.records) == limit and len(schedules) == len(soon):
        later = {due.now}  # there may be more
    if not schedules:
        return Look(due.now, unreadable=tuple(unreadable), next_due_at=min(later, default=None))
    states = yield from states_of(verbs, schedules)
    decided = [decide(schedule, due.now, ahead, states) for schedule in schedules]
    changes = [change_of(schedule, each) for schedule, each in zip(schedules, decided, strict=True)]
    made = yield verbs.change_records(changes)
    ours = [(schedule, each) for schedule, each, done in zip(schedules, decided, made, strict=True) if done]
    return Look(
        due.now,
        fires=tuple(fire for _, each in ours for fire in each.fires),
        paused=tuple(
            replace(schedule, plan=each.plan) for schedule, each in ours if each.plan.paused_at is not None
        ),
        unreadable=tuple(unreadable),
        next_due_at=min({*later, *(each.due_at for each in decided if each.due_at is not None)}, default=None),
    )


def rejudge(verbs: Store, name: str, judge: Judge, *, forget: bool = False) -> Verbs[Schedule]:
    """Read a schedule, judge, and write what was decided, or forget it; anew while others are faster."""
    for _ in range(TRIES):
        schedule = yield from find(verbs, name)
        now = yield from store_now(verbs)  # after it was read: what others decide until now shows in its version
        states = yield from states_of(verbs, [schedule])
        decided = judge(schedule, now, states)
        made = yield from _change(verbs, change_of(schedule, decided, forget=forget))
        if made:
            return Schedule(name, schedule.version + 1, decided.plan, decided.due_at)
    raise _changed_by_others(name)


def _changed_by_others(name: str) -> StoreError:
    return StoreError(f"schedule {name!r} was changed by others again and again: try again")


def states_of(verbs: Store, schedules: Iterable[Schedule]) -> Verbs[Mapping[str, State]]:
    """Return the states of the runs of schedules."""
    jobs = [run.job_id for schedule in schedules for run in schedule.plan.runs]
    if not jobs:
        return {}
    glances = yield verbs.glance(jobs)
    return {job_id: glance.state for job_id, glance in glances.items()}


def _change(verbs: Store, change: Change) -> Verbs[bool]:
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
    )
