"""Schedules, their times and what became of them."""

import asyncio
import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Annotated, Any

import msgspec
from msgspec.structs import asdict, replace

from standfast.admin.executor import OperationContext, all_workers
from standfast.admin.fields import (
    AnswerStruct,
    Arguments,
    Named,
    NothingAsked,
    QueueName,
    RequestStruct,
    Text,
    ValueSeen,
    When,
    Word,
    args_seen,
    past,
)
from standfast.admin.job_details import changed_payload
from standfast.admin.operation import Role, WrongRequestError, acts, reads
from standfast.admin.tasks import find_task, secrets_of
from standfast.errors import ConfigurationError
from standfast.model.job import OnLate
from standfast.model.phrases import Phrase, as_phrase, listed, phrase_in, stored_phrase
from standfast.model.records import Decision, Fire, FireCause, Kind, Record
from standfast.model.states import FINAL, State
from standfast.schedules.declarations import read_releases
from standfast.schedules.description import describe
from standfast.schedules.operations import Schedules
from standfast.schedules.rules import AnyRule, Cron, Every, Rule
from standfast.schedules.schedule import (
    Schedule,
    ScheduleStatus,
    Template,
    coming,
    next_fire,
    read_schedules,
    schedule_status,
    zone_of,
)
from standfast.stores.contract import ask_time


class FireSeen(AnswerStruct, frozen=True, kw_only=True):
    """What became of one planned time, or of `count` in a row of which `until` is the last."""

    schedule: str
    planned: datetime
    decision: Decision
    cause: FireCause
    count: int
    until: datetime | None
    decided_at: datetime | None
    why: Phrase | None
    job: str | None


class UpcomingSeen(AnswerStruct, frozen=True, kw_only=True):
    """A planned time to come. `excluded` says why it will not be fired, `note` what changed clocks do to it."""

    schedule: str
    planned: datetime
    run_at: datetime
    excluded: Phrase | None = None
    note: Phrase | None = None


class RunSeen(AnswerStruct, frozen=True, kw_only=True):
    """A job of the schedule that is not over."""

    job: str
    planned: datetime
    state: State


class ScheduleRow(AnswerStruct, frozen=True, kw_only=True):
    """A schedule in short. `state` is active, paused, retired, done, or unreadable: then `problem` says why.

    `failing`: the job of its last fire is dead.
    """

    name: str
    state: str
    words: Phrase
    task: str | None
    queue: str | None
    next_at: datetime | None
    zone: str | None
    last: FireSeen | None
    failing: bool
    paused_at: datetime | None
    paused_why: str | None
    app: str | None
    problem: Phrase | None = None


class SchedulesSeen(AnswerStruct, frozen=True, kw_only=True):
    """All schedules, by name. `idle`: no worker lives, so nothing is fired."""

    now: datetime
    idle: bool
    schedules: tuple[ScheduleRow, ...]


class ScheduleSeen(ScheduleRow, frozen=True, kw_only=True):
    """A schedule with its next times, what became of the last ones, and the job that it enqueues.

    `release` is that of the app which declared it, `counting` the release whose schedules count now. `version` is
    that of the arguments, `start_within` seconds.
    """

    now: datetime
    idle: bool
    rule: dict[str, Any]
    next: tuple[UpcomingSeen, ...]
    fires: tuple[FireSeen, ...]
    runs: tuple[RunSeen, ...]
    waiting: tuple[datetime, ...]
    created_at: datetime
    retired_at: datetime | None
    release: str | None
    counting: str | None
    args: dict[str, ValueSeen]
    args_problem: Phrase | None
    version: int
    priority: int
    max_attempts: int
    start_within: float | None
    on_late: OnLate
    tags: tuple[str, ...]
    metadata: dict[str, str]


class UpcomingAsked(RequestStruct, frozen=True, kw_only=True):
    """How many of the next times, of one schedule or of all that are active."""

    name: Word | None = None
    count: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 10


class ComingSeen(AnswerStruct, frozen=True, kw_only=True):
    """Planned times to come, in their order."""

    now: datetime
    times: tuple[UpcomingSeen, ...]


class FiresAsked(RequestStruct, frozen=True, kw_only=True):
    """How many of the latest planned times, of one schedule or of all; `before` as in BackfillAsked."""

    name: Word | None = None
    before: When | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 20


class FiresSeen(AnswerStruct, frozen=True, kw_only=True):
    """What became of planned times, the latest first."""

    now: datetime
    fires: tuple[FireSeen, ...]


class SchedulePauseAsked(Named, frozen=True, kw_only=True):
    """Which schedule is to fire no more, and why."""

    why: Text | None = None


class ScheduleEditAsked(Named, frozen=True, kw_only=True):
    """What is to change about a schedule; null stays as it is.

    `cron` or `every` (seconds) with `tz` take the place of its times; `rule` of all of its rule, as
    `schedules.show` has it. `args` are all arguments that are not secret.
    """

    cron: Word | None = None
    every: Annotated[float, msgspec.Meta(gt=0, le=3_153_600_000)] | None = None
    tz: Word | None = None
    rule: dict[str, Any] | None = None
    args: Arguments | None = None
    queue: QueueName | None = None
    priority: Annotated[int, msgspec.Meta(ge=-32_768, le=32_767)] | None = None
    max_attempts: Annotated[int, msgspec.Meta(ge=1, le=32_767)] | None = None


class ScheduleEdit(ScheduleEditAsked, frozen=True, kw_only=True):
    """An edit from Python: what makes the new rule of the old one, and the new job of the old one."""

    change_rule: Callable[[AnyRule], AnyRule] | None = None
    change_job: Callable[[Template], Template] | None = None


class BackfillAsked(Named, frozen=True, kw_only=True):
    """For which past times to enqueue jobs; a date with its zone, or how long ago, such as 6h.

    With `dry`, they are only counted. With `again`, also for those that were fired.
    """

    since: When
    until: When | None = None
    again: bool = False
    dry: bool = False


class Backfill(BackfillAsked, frozen=True, kw_only=True):
    """A backfill from Python, of any number of times. `progress` hears how many of how many are done."""

    progress: Callable[[int, int], None]


class ScheduleDone(AnswerStruct, frozen=True, kw_only=True):
    """A schedule and how it stands now; `job` is the one that was enqueued.

    `comes_back`: it is deleted, but an app declares it, and makes it anew when a worker of the app starts.
    """

    name: str
    state: str
    next_at: datetime | None = None
    paused_at: datetime | None = None
    paused_why: str | None = None
    job: str | None = None
    comes_back: bool = False


class BackfillDone(ScheduleDone, frozen=True, kw_only=True):
    """For how many planned times from `since` to `until` jobs were enqueued; the first and the last of these.

    Times after `undecided_after` are left to the workers, which have not decided about them yet.
    """

    since: datetime
    until: datetime
    count: int
    first_at: datetime | None = None
    last_at: datetime | None = None
    undecided_after: datetime | None = None


# Schedules, their times to come and what became of the last ones.

UNREADABLE = "unreadable"
"""The state of a schedule of which nobody here knows more than its name."""

_A_MOMENT = timedelta(microseconds=1)
_NEXT = 10
_FIRES = 50
_LATEST = 200
"""Among so many fires of all schedules is the last one of most of them: only of the others it is asked for."""
_MOST_RUNS = 100


@dataclass(frozen=True, slots=True)
class Timetable:
    """All schedules as they were seen: those that can be read, what is wrong with the others, what became of them.

    To tell when one fires next, and in words, takes a while, and there may be thousands: it is told of those only
    that are asked for.
    """

    now: datetime
    readable: Sequence[Schedule]
    problems: Mapping[str, Phrase]
    last: Mapping[str, Fire | None]
    states: Mapping[str, State]

    def all(self) -> tuple[ScheduleRow, ...]:
        """Return all of them, by name."""
        rows = [self._row(each, self.now) for each in self.readable]
        return tuple(sorted([*rows, *self._unreadable()], key=lambda row: row.name))

    def troubled(self) -> tuple[ScheduleRow, ...]:
        """Return those that cannot be read, or whose last job is dead."""
        failing = [each for each in self.readable if is_failing(self.last[each.name], self.states)]
        return (*(self._row(each, self.now) for each in failing), *self._unreadable())

    def soonest(self, now: datetime, few: int) -> tuple[ScheduleRow, ...]:
        """Return those that fire next, from now on: what was still to come when they were seen may be past."""
        found: list[tuple[datetime, str, Schedule]] = []
        for earliest, name, schedule in sorted(_earliest(each, now) for each in self.readable):
            if len(found) == few and earliest > found[-1][0]:
                break
            upcoming = next_fire(schedule, now)
            if upcoming is not None:
                found = sorted([*found, (upcoming.planned, name, schedule)])[:few]
        return tuple(self._row(schedule, now) for *_, schedule in found)

    def _row(self, schedule: Schedule, now: datetime) -> ScheduleRow:
        return schedule_row(schedule, now, self.last[schedule.name], self.states)

    def _unreadable(self) -> list[ScheduleRow]:
        return [_unreadable(name, problem) for name, problem in self.problems.items()]


def _earliest(schedule: Schedule, now: datetime) -> tuple[datetime, str, Schedule]:
    """Return a time before which a schedule does not fire, with its name and itself: names tell them apart."""
    ahead = [run.planned for run in schedule.plan.runs if run.planned > now]
    due = [] if schedule.due_at is None else [schedule.due_at]
    return min([*ahead, *due], default=now), schedule.name, schedule


@reads("schedules.list", "/schedules")
async def list_schedules(desk: OperationContext, asked: NothingAsked) -> SchedulesSeen:  # noqa: ARG001 - there is nothing to ask
    """List all schedules, by name."""
    timetable = await read_timetable(desk)
    return SchedulesSeen(now=timetable.now, idle=await _is_idle(desk), schedules=timetable.all())


async def read_timetable(desk: OperationContext) -> Timetable:
    """Return all schedules."""
    now = (await desk.ask(ask_time(desk.verbs))).now
    records = await desk.ask(desk.verbs.records(Kind.SCHEDULE))
    readable, unreadable = read_schedules(records)
    problems = dict(zip(_unread(records, readable), map(phrase_in, unreadable), strict=True))
    last = await _last_fires(desk, [each.name for each in readable], now)
    states = await _states(desk, [fire.job_id for fire in last.values() if fire is not None and fire.job_id])
    return Timetable(now, readable, problems, last, states)


@reads("schedules.show", "/schedules/{name}")
async def show_schedule(desk: OperationContext, asked: Named) -> ScheduleSeen:
    """Show a schedule, its next times, what became of the last ones, and the job that it enqueues."""
    schedules = schedules_of(desk)
    schedule = await desk.ask(schedules.get(asked.name))
    now = (await desk.ask(ask_time(desk.verbs))).now
    fires = await desk.ask(schedules.fires(asked.name, _FIRES, before=now + _A_MOMENT))
    plan, job, origin = schedule.plan, schedule.plan.job, schedule.plan.origin
    runs = plan.runs[-_MOST_RUNS:]
    jobs = [run.job_id for run in runs] + [fire.job_id for fire in fires[:1] if fire.job_id]
    states = await _states(desk, jobs)
    args, problem = args_seen(job.payload)
    return ScheduleSeen(
        now=now,
        idle=await _is_idle(desk),
        **asdict(schedule_row(schedule, now, fires[0] if fires else None, states)),
        rule=msgspec.to_builtins(plan.rule),
        next=tuple(_upcoming(schedule, now, _NEXT)) if plan.active else (),
        fires=tuple(map(fire_seen, fires)),
        runs=tuple(
            RunSeen(job=run.job_id, planned=run.planned, state=states[run.job_id])
            for run in runs
            if states.get(run.job_id, State.COMPLETED) not in FINAL
        ),
        waiting=plan.waiting,
        created_at=plan.created_at,
        retired_at=plan.retired_at,
        release=None if origin is None else origin.release,
        counting=None if origin is None else await _counting_release(desk, origin.app),
        args=args,
        args_problem=problem,
        version=job.version,
        priority=job.priority,
        max_attempts=job.max_attempts,
        start_within=None if job.start_within is None else job.start_within.total_seconds(),
        on_late=job.on_late,
        tags=job.tags,
        metadata=dict(job.metadata),
    )


async def _counting_release(desk: OperationContext, app: str) -> str | None:
    records = await desk.ask(desk.verbs.records(Kind.RELEASE, (app,)))
    return read_releases(records).names[-1] if records else None


@reads("schedules.next", "/upcoming")
async def list_upcoming(desk: OperationContext, asked: UpcomingAsked) -> ComingSeen:
    """List the next times of a schedule, or of all that are active, in their order; also those that are excluded."""
    now = (await desk.ask(ask_time(desk.verbs))).now
    if asked.name:
        schedules = [await desk.ask(schedules_of(desk).get(asked.name))]
    else:
        records = await desk.ask(desk.verbs.records(Kind.SCHEDULE))
        readable, _ = read_schedules(records)
        schedules = [each for each in readable if schedule_status(each, now) is ScheduleStatus.ACTIVE]
    times = heapq.merge(*(_upcoming(each, now, asked.count) for each in schedules), key=lambda each: each.planned)
    return ComingSeen(now=now, times=tuple(islice(times, asked.count)))


def _upcoming(schedule: Schedule, now: datetime, count: int) -> Iterator[UpcomingSeen]:
    for each in coming(schedule, now, count):
        yield UpcomingSeen(
            schedule=schedule.name, planned=each.planned, run_at=each.run_at, excluded=each.excluded, note=each.note
        )


@reads("schedules.fires", "/fires")
async def list_fires(desk: OperationContext, asked: FiresAsked) -> FiresSeen:
    """List what became of planned times, of one schedule or of all, the latest first."""
    now = (await desk.ask(ask_time(desk.verbs))).now
    before = past("before", asked.before, now)
    fires = await desk.ask(schedules_of(desk).fires(asked.name or None, asked.limit, before))
    return FiresSeen(now=now, fires=tuple(map(fire_seen, fires)))


def schedules_of(desk: OperationContext) -> Schedules:
    """Return what can be done with schedules."""
    return Schedules(desk.verbs, timedelta(seconds=desk.office.loaded.settings.look_ahead))


def schedule_row(schedule: Schedule, now: datetime, last: Fire | None, states: Mapping[str, State]) -> ScheduleRow:
    """Return a schedule in short."""
    plan = schedule.plan
    upcoming = next_fire(schedule, now)
    zone = zone_of(plan.rule)
    return ScheduleRow(
        name=schedule.name,
        state=schedule_status(schedule, now).value,
        words=describe(plan.rule, schedule.ground),
        task=plan.job.task,
        queue=plan.job.queue,
        next_at=None if upcoming is None else upcoming.planned,
        zone=None if zone is None else str(zone),
        last=None if last is None else fire_seen(last),
        failing=is_failing(last, states),
        paused_at=plan.paused_at,
        paused_why=plan.paused_why,
        app=None if plan.origin is None else plan.origin.app,
    )


def is_failing(last: Fire | None, states: Mapping[str, State]) -> bool:
    """Tell whether the job of the last fire is dead."""
    return last is not None and last.job_id is not None and states.get(last.job_id) is State.DEAD


def fire_seen(fire: Fire) -> FireSeen:
    """Return what became of a planned time."""
    return FireSeen(
        schedule=fire.schedule,
        planned=fire.planned,
        decision=fire.decision,
        cause=fire.cause,
        count=fire.count,
        until=fire.until,
        decided_at=fire.decided_at,
        why=None if fire.note is None else stored_phrase(fire.note, "fired", "excluded", "weekday", "state"),
        job=fire.job_id,
    )


def _unreadable(name: str, problem: Phrase) -> ScheduleRow:
    return ScheduleRow(
        name=name,
        state=UNREADABLE,
        words=as_phrase(""),
        task=None,
        queue=None,
        next_at=None,
        zone=None,
        last=None,
        failing=False,
        paused_at=None,
        paused_why=None,
        app=None,
        problem=problem,
    )


def _unread(records: Sequence[Record], readable: Sequence[Schedule]) -> list[str]:
    known = {each.name for each in readable}
    names = [record.name for record in records]
    return [name for name in names if name not in known]


async def _last_fires(desk: OperationContext, names: Sequence[str], now: datetime) -> dict[str, Fire | None]:
    """Return what became of the last planned time that has come, of each schedule."""
    before = now + _A_MOMENT
    latest = await desk.ask(desk.verbs.fires(None, _LATEST, before)) if names else ()
    last = {fire.schedule: fire for fire in reversed(latest)}
    if len(latest) < _LATEST:
        return {name: last.get(name) for name in names}
    others = [name for name in names if name not in last]
    found = await asyncio.gather(*(desk.ask(desk.verbs.fires(name, 1, before)) for name in others))
    last |= {name: fires[0] for name, fires in zip(others, found, strict=True) if fires}
    return {name: last.get(name) for name in names}


async def _states(desk: OperationContext, job_ids: Sequence[str]) -> dict[str, State]:
    glances = await desk.ask(desk.verbs.glance(job_ids)) if job_ids else {}
    return {job_id: glance.state for job_id, glance in glances.items()}


async def _is_idle(desk: OperationContext) -> bool:
    return not any(worker.is_live for worker in await all_workers(desk))


# What a person says about when a schedule fires and what it enqueues, and what that makes of it.

_SHARED = tuple(field.name for field in msgspec.structs.fields(Rule))
"""What every rule has besides its times."""

_ROUTING = ("queue", "priority", "max_attempts")


def new_rule(asked: ScheduleEditAsked) -> Callable[[AnyRule], AnyRule] | None:
    """Return what makes the new rule of the old one; None where it stays. Raises WrongRequestError."""
    said = [name for name in ("cron", "every", "rule") if getattr(asked, name)]
    if len(said) > 1:
        raise WrongRequestError(Phrase("refusal.one_rule", fields=listed(said)))
    if asked.rule:
        whole = _whole_rule(asked.rule)
        return lambda _: whole
    if not (asked.cron or asked.every or asked.tz):
        return None
    return lambda rule: _changed(rule, asked)


def _changed(rule: AnyRule, asked: ScheduleEditAsked) -> AnyRule:
    options = {name: getattr(rule, name) for name in _SHARED}
    zones = rule.zones()
    tz = asked.tz or (next(iter(zones)) if len(zones) == 1 else "UTC")
    if asked.every and isinstance(rule, Every):
        return replace(rule, interval=asked.every)
    if asked.cron:
        return Cron(asked.cron, tz=tz, **options)
    if asked.every:
        return Every(asked.every, **options)
    if isinstance(rule, Cron):
        return replace(rule, tz=tz)
    raise WrongRequestError(Phrase("refusal.only_cron"))


def _whole_rule(rule: dict[str, Any]) -> AnyRule:
    try:
        read: AnyRule = msgspec.convert(rule, AnyRule)
    except (msgspec.ValidationError, ConfigurationError, ValueError, TypeError, OverflowError) as error:
        raise WrongRequestError(f"rule: {error}") from error
    return read


def new_job(asked: ScheduleEditAsked, secrets: frozenset[str]) -> Callable[[Template], Template] | None:
    """Return what makes the new job of the old one; None where it stays. `secrets` are names of its arguments."""
    routing = {name: value for name in _ROUTING if (value := getattr(asked, name)) not in {None, ""}}
    args = asked.args
    if not routing and args is None:
        return None
    encoded = (
        None if args is None else {name: msgspec.Raw(msgspec.json.encode(each)) for name, each in args.items()}
    )

    def changed(template: Template) -> Template:
        new = replace(template, **routing)
        if encoded is None:
            return new
        return replace(new, payload=changed_payload(template.payload, encoded, whole=True, secrets=secrets))

    return changed


# What can be done with schedules.

MOST_FILLED = 10_000
"""So many times are filled by one call."""


@acts("schedules.trigger", "/schedules/{name}/trigger", Role.OPERATOR)
async def trigger_schedule(desk: OperationContext, asked: Named) -> ScheduleDone:
    """Fire a schedule once, now, whatever its rule says, and if it is paused too."""
    schedules = schedules_of(desk)
    job_id = await desk.ask(schedules.trigger(asked.name))
    desk.note(after=Phrase("noted.job", job=job_id))
    return await _done(desk, await desk.ask(schedules.get(asked.name)), job_id)


@acts("schedules.pause", "/schedules/{name}/pause", Role.OPERATOR)
async def pause_schedule(desk: OperationContext, asked: SchedulePauseAsked) -> ScheduleDone:
    """Let a schedule fire no more until it goes on; jobs that it has fired ahead of their time are cancelled."""
    desk.note(before=await _state(desk, asked.name))
    schedule = await desk.ask(schedules_of(desk).pause(asked.name, asked.why or None))
    return await _done(desk, schedule)


@acts("schedules.resume", "/schedules/{name}/resume", Role.OPERATOR)
async def resume_schedule(desk: OperationContext, asked: Named) -> ScheduleDone:
    """Let a paused schedule fire again, from now on."""
    desk.note(before=await _state(desk, asked.name))
    return await _done(desk, await desk.ask(schedules_of(desk).resume(asked.name)))


@acts("schedules.edit", "/schedules/{name}/edit", Role.ADMIN)
async def edit_schedule(desk: OperationContext, asked: ScheduleEditAsked) -> ScheduleDone:
    """Change when a schedule fires, or what it enqueues; what is not said stays as it is."""
    schedules = schedules_of(desk)
    before = await desk.ask(schedules.get(asked.name))
    rule = asked.change_rule if isinstance(asked, ScheduleEdit) else new_rule(asked)
    if rule is not None and rule(before.plan.rule) == before.plan.rule:
        rule = None
    secrets = secrets_of(await find_task(desk, before.plan.job.task))
    job = asked.change_job if isinstance(asked, ScheduleEdit) else new_job(asked, secrets)
    if rule is None and job is None:
        raise WrongRequestError(Phrase("refusal.no_change"))
    desk.note(before=_told(before))
    schedule = await desk.ask(schedules.edit(asked.name, rule=rule, job=job))
    done = await _done(desk, schedule)
    desk.note(after=_told(schedule))
    return done


@acts("schedules.backfill", "/schedules/{name}/backfill", Role.ADMIN)
async def backfill_schedule(desk: OperationContext, asked: BackfillAsked) -> BackfillDone:
    """Enqueue a job for each planned time of a past range that was not fired."""
    schedules = schedules_of(desk)
    schedule = await desk.ask(schedules.get(asked.name))
    now = (await desk.ask(ask_time(desk.verbs))).now
    since, until = past("since", asked.since, now), past("until", asked.until, now) or now
    if since is None or since > until:
        raise WrongRequestError(Phrase("refusal.no_past"))
    times = await desk.ask(schedules.backfill_times(asked.name, since, until, again=asked.again))
    if len(times) > MOST_FILLED and not isinstance(asked, Backfill):
        raise WrongRequestError(Phrase("refusal.too_many_times", times=f"{len(times):,}", most=f"{MOST_FILLED:,}"))
    count = len(times)
    if count and not asked.dry:
        desk.note(after=Phrase("noted.begun", so_far=Phrase("noted.counted", n=count)))
        await desk.write_ahead()
        how = {"progress": asked.progress} if isinstance(asked, Backfill) else {}
        count = await desk.ask(schedules.backfill(asked.name, since, until, again=asked.again, **how))
    desk.note(after=Phrase("noted.counted" if asked.dry else "noted.enqueued", n=count))
    plan = schedule.plan
    undecided = next(iter(plan.rule.times_after(plan.cursor, schedule.ground)), None)
    return BackfillDone(
        **_standing(await desk.ask(schedules.get(asked.name)), now),
        since=since,
        until=until,
        count=count,
        first_at=times[0] if times else None,
        last_at=times[-1] if times else None,
        undecided_after=plan.cursor if plan.active and undecided is not None and undecided <= until else None,
    )


@acts("schedules.delete", "/schedules/{name}/delete", Role.ADMIN)
async def delete_schedule(desk: OperationContext, asked: Named) -> ScheduleDone:
    """Forget a schedule and its history; one that code declares comes back when a worker of its app starts."""
    schedule = await desk.ask(schedules_of(desk).get(asked.name))
    desk.note(before=_told(schedule))
    await desk.ask(schedules_of(desk).delete(asked.name))
    desk.note(after=Phrase("noted.deleted"))
    comes_back = schedule.plan.origin is not None and schedule.plan.retired_at is None
    return ScheduleDone(name=asked.name, state="deleted", comes_back=comes_back)


async def _state(desk: OperationContext, name: str) -> Phrase:
    now = (await desk.ask(ask_time(desk.verbs))).now
    return Phrase(f"schedule_state.{schedule_status(await desk.ask(schedules_of(desk).get(name)), now)}")


async def _done(desk: OperationContext, schedule: Schedule, job: str | None = None) -> ScheduleDone:
    done = ScheduleDone(**_standing(schedule, (await desk.ask(ask_time(desk.verbs))).now), job=job)
    if job is None:
        desk.note(after=Phrase(f"schedule_state.{done.state}"))
    return done


def _standing(schedule: Schedule, now: datetime) -> dict[str, Any]:
    upcoming, plan = next_fire(schedule, now), schedule.plan
    return {
        "name": schedule.name,
        "state": schedule_status(schedule, now).value,
        "next_at": None if upcoming is None else upcoming.planned,
        "paused_at": plan.paused_at,
        "paused_why": plan.paused_why,
    }


def _told(schedule: Schedule) -> Phrase:
    job = schedule.plan.job
    rule = describe(schedule.plan.rule, schedule.ground)
    known = {"task": job.task, "queue": job.queue, "priority": job.priority, "n": job.max_attempts}
    return Phrase("noted.schedule", rule=rule, **known)
