"""A schedule as the fields that `--json` prints, its times in words, and what several commands say of it."""

import shlex
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any

import msgspec
from rich.text import Text

from standfast.cli.output import say
from standfast.cli.timetable import Timetable
from standfast.core.record import Decision, Fire
from standfast.schedule.outlook import Standing, next_fire, standing_of, zone_of
from standfast.schedule.plan import Plan, Schedule
from standfast.schedule.words import Upcoming, describe
from standfast.watch.envelope import decoded_args
from standfast.watch.obstacle import START_A_WORKER
from standfast.words import one_line, relative

STANDING_STYLES = {
    Standing.ACTIVE: "green",
    Standing.PAUSED: "yellow",
    Standing.RETIRED: "dim",
    Standing.DONE: "dim",
}

NOBODY_FIRES = f"No worker is running, so nothing is fired: {START_A_WORKER}."

_DECISION_STYLES = {
    Decision.FIRED: "green",
    Decision.CAUGHT_UP: "green",
    Decision.QUEUED: "yellow",
    Decision.OVERLAPPED: "yellow",
    Decision.MISSED: "bold red",
    Decision.EXCLUDED: "dim",
    Decision.REVOKED: "dim",
}


@dataclass(frozen=True, slots=True)
class Seen:
    """A schedule as it is at the store's `now`."""

    schedule: Schedule
    now: datetime
    standing: Standing
    next: Upcoming | None
    last: Fire | None

    @property
    def name(self) -> str:
        """The name of the schedule."""
        return self.schedule.name

    @property
    def zone(self) -> tzinfo | None:
        """The zone by whose clock it goes, if by one."""
        return zone_of(self.schedule.plan.rule)

    @property
    def words(self) -> str:
        """When it fires, in plain words."""
        return str(describe(self.schedule.plan.rule, self.schedule.ground))


def see(timetable: Timetable, schedule: Schedule) -> Seen:
    """Look at a schedule."""
    return Seen(
        schedule,
        timetable.now,
        standing_of(schedule, timetable.now),
        next_fire(schedule, timetable.now),
        timetable.last_fire(schedule.name),
    )


def say_next(seen: Seen, *, idle: bool) -> None:
    """Say when it fires next, and that nobody is there to fire it."""
    if seen.next is not None:
        say(f"Next: {zoned_words(seen.next.planned, seen.zone)} ({relative(seen.next.planned, seen.now)}).")
    elif seen.standing is Standing.ACTIVE:
        say(f"All its times are excluded: `standfast schedules next {shlex.quote(one_line(seen.name))}` says why.")
    elif seen.standing is Standing.DONE:
        say("No time is left.")
    else:
        say(f"It is {seen.standing}.")
    if idle:
        say(NOBODY_FIRES)


def retired_words(timetable: Timetable, plan: Plan) -> str:
    """Return who declares a schedule no more, and what brings it back."""
    app = "its app" if plan.origin is None else plan.origin.app
    release = None if plan.origin is None else timetable.counting_release(app)
    who = app if release is None else f"release {release} of {app}, which counts now,"
    return (
        f"{who} declares it no more. Where a release is installed that does, `standfast schedules sync MODULE:APP`"
        " brings it back."
    )


def schedule_fields(seen: Seen) -> dict[str, Any]:
    """Return everything there is about a schedule, ready for JSON; what is secret in its arguments is masked."""
    plan = seen.schedule.plan
    job = plan.job
    return {
        "name": seen.name,
        "state": seen.standing,
        "words": seen.words,
        "rule": msgspec.to_builtins(plan.rule),
        "task": job.task,
        **decoded_args(job.payload),
        "payload_version": job.version,
        "queue": job.queue,
        "priority": job.priority,
        "max_attempts": job.max_attempts,
        "start_within": None if job.start_within is None else job.start_within.total_seconds(),
        "on_late": job.on_late,
        "tags": job.tags,
        "metadata": dict(job.metadata),
        "next": None if seen.next is None else {"planned": seen.next.planned, "run_at": seen.next.run_at},
        "last": None if seen.last is None else fire_fields(seen.last),
        "waiting": plan.waiting,
        "created_at": plan.created_at,
        "app": None if plan.origin is None else plan.origin.app,
        "release": None if plan.origin is None else plan.origin.release,
        "paused_at": plan.paused_at,
        "paused_why": plan.paused_why,
        "retired_at": plan.retired_at,
        "version": seen.schedule.version,
    }


def fire_fields(fire: Fire) -> dict[str, Any]:
    """Return what became of a planned time, ready for JSON."""
    return {
        "schedule": fire.schedule,
        "planned": fire.planned,
        "count": fire.count,
        "until": fire.until,
        "decision": fire.decision,
        "cause": fire.cause,
        "decided_at": fire.decided_at,
        "why": fire.note,
        "job": fire.job_id,
    }


def clock_words(moment: datetime, zone: tzinfo | None) -> str:
    """Return a time by the clock of a zone, or else of this machine: `Mon 2026-03-02 02:00`."""
    local = _local(moment, zone)
    precise = local.second or local.microsecond
    return f"{local:%a %Y-%m-%d %H:%M:%S}" if precise else f"{local:%a %Y-%m-%d %H:%M}"


def zoned_words(moment: datetime, zone: tzinfo | None) -> str:
    """Return the same with the name of the zone."""
    return f"{clock_words(moment, zone)} {zone or _local(moment, zone).tzname()}"


def short_clock_words(moment: datetime, zone: tzinfo | None, now: datetime) -> str:
    """Return a time of that clock in few characters: of today, of this year, or the date alone."""
    local, today = _local(moment, zone), _local(now, zone).date()
    time = f"{local:%H:%M:%S}" if local.second or local.microsecond else f"{local:%H:%M}"
    if local.date() == today:
        return time
    return f"{local:%m-%d} {time}" if local.year == today.year else f"{local:%Y-%m-%d}"


def _local(moment: datetime, zone: tzinfo | None) -> datetime:
    try:
        return moment.astimezone(zone)
    except OverflowError:  # at the very ends of the calendar there is no local time
        return moment


def decision_words(fire: Fire) -> Text:
    """Return what was decided, and of how many planned times in a row."""
    word = fire.decision.value.replace("_", " ")
    style = _DECISION_STYLES[fire.decision]
    return Text(word if fire.count == 1 else f"{word} ×{fire.count:,}", style=style)
