"""Schedules, their times to come and what became of the last ones."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from standfast.core.record import Fire, Kind, Record
from standfast.core.states import FINAL, State
from standfast.dashboard.desk import Desk
from standfast.dashboard.operation import reads
from standfast.dashboard.reading.shared_looks import all_workers
from standfast.dashboard.reading.shown import args_seen
from standfast.dashboard.shapes.schedules import (
    FireSeen,
    RunSeen,
    ScheduleRow,
    ScheduleSeen,
    SchedulesSeen,
    UpcomingSeen,
)
from standfast.dashboard.shapes.words import Named, NothingAsked
from standfast.phrases import Phrase, as_phrase, phrase_in, stored_phrase
from standfast.schedule.outlook import coming, next_fire, standing_of, zone_of
from standfast.schedule.plan import Schedule, read_schedules
from standfast.schedule.schedules import Schedules
from standfast.schedule.words import describe
from standfast.store.protocol import ask_time

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
async def list_schedules(desk: Desk, asked: NothingAsked) -> SchedulesSeen:  # noqa: ARG001 - there is nothing to ask
    """List all schedules, by name."""
    timetable = await read_timetable(desk)
    return SchedulesSeen(now=timetable.now, idle=await _is_idle(desk), schedules=timetable.all())


async def read_timetable(desk: Desk) -> Timetable:
    """Return all schedules."""
    now = (await desk.ask(ask_time(desk.verbs))).now
    records = await desk.ask(desk.verbs.records(Kind.SCHEDULE))
    readable, unreadable = read_schedules(records)
    problems = dict(zip(_unread(records, readable), map(phrase_in, unreadable), strict=True))
    last = await _last_fires(desk, [each.name for each in readable], now)
    states = await _states(desk, [fire.job_id for fire in last.values() if fire is not None and fire.job_id])
    return Timetable(now, readable, problems, last, states)


@reads("schedules.show", "/schedules/{name}")
async def show_schedule(desk: Desk, asked: Named) -> ScheduleSeen:
    """Show a schedule, its next times, what became of the last ones, and the job that it enqueues."""
    schedules = schedules_of(desk)
    schedule = await desk.ask(schedules.get(asked.name))
    now = (await desk.ask(ask_time(desk.verbs))).now
    fires = await desk.ask(schedules.fires(asked.name, _FIRES, before=now + _A_MOMENT))
    plan, job = schedule.plan, schedule.plan.job
    runs = plan.runs[-_MOST_RUNS:]
    jobs = [run.job_id for run in runs] + [fire.job_id for fire in fires[:1] if fire.job_id]
    states = await _states(desk, jobs)
    args, problem = args_seen(job.payload)
    return ScheduleSeen(
        now=now,
        idle=await _is_idle(desk),
        row=schedule_row(schedule, now, fires[0] if fires else None, states),
        rule=msgspec.to_builtins(plan.rule),
        next=tuple(
            UpcomingSeen(planned=each.planned, run_at=each.run_at, excluded=each.excluded, note=each.note)
            for each in (coming(schedule, now, _NEXT) if plan.active else ())
        ),
        fires=tuple(map(fire_seen, fires)),
        runs=tuple(
            RunSeen(job=run.job_id, planned=run.planned, state=states[run.job_id])
            for run in runs
            if states.get(run.job_id, State.COMPLETED) not in FINAL
        ),
        waiting=plan.waiting,
        created_at=plan.created_at,
        release=None if plan.origin is None else plan.origin.release,
        args=args,
        args_problem=problem,
        version=job.version,
        priority=job.priority,
        max_attempts=job.max_attempts,
        tags=job.tags,
        metadata=dict(job.metadata),
    )


def schedules_of(desk: Desk) -> Schedules:
    """Return what can be done with schedules."""
    return Schedules(desk.verbs, timedelta(seconds=desk.office.loaded.settings.look_ahead))


def schedule_row(schedule: Schedule, now: datetime, last: Fire | None, states: Mapping[str, State]) -> ScheduleRow:
    """Return a schedule in short."""
    plan = schedule.plan
    upcoming = next_fire(schedule, now)
    zone = zone_of(plan.rule)
    return ScheduleRow(
        name=schedule.name,
        state=standing_of(schedule, now).value,
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


async def _last_fires(desk: Desk, names: Sequence[str], now: datetime) -> dict[str, Fire | None]:
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


async def _states(desk: Desk, job_ids: Sequence[str]) -> dict[str, State]:
    glances = await desk.ask(desk.verbs.glance(job_ids)) if job_ids else {}
    return {job_id: glance.state for job_id, glance in glances.items()}


async def _is_idle(desk: Desk) -> bool:
    return not any(worker.is_live for worker in await all_workers(desk))
