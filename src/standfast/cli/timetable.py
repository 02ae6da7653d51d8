"""The schedules of an open store: what every command about them goes through."""

import heapq
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from itertools import islice
from typing import Any, TypeVar

import click
import msgspec
from rich.text import Text

from standfast.admin.job_details import decoded_args
from standfast.cli.connection import StoreOptions, examples, existing_store, store_options, tz_option
from standfast.cli.exit_codes import say_failed
from standfast.cli.inputs import read_moment
from standfast.cli.output import Column, cut, say, say_json, say_table
from standfast.model.configuration import Settings
from standfast.model.display import counted, one_line, relative, short_id, span
from standfast.model.records import Decision, Fire, FireCause, Kind
from standfast.observe.obstacles import START_A_WORKER
from standfast.schedules.declarations import read_releases
from standfast.schedules.description import Upcoming, describe
from standfast.schedules.operations import Schedules
from standfast.schedules.schedule import (
    Plan,
    Schedule,
    ScheduleStatus,
    coming,
    next_fire,
    read_schedules,
    schedule_status,
    zone_of,
)
from standfast.schedules.zones import find_zone
from standfast.stores.backend import Backend
from standfast.stores.contract import ask_time
from standfast.stores.verb import Procedure, Verb, run_procedure

T = TypeVar("T")

_A_MOMENT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Timetable:
    """The schedules of a store, how far `ahead` of their time they are fired, and what time the store has."""

    backend: Backend
    schedules: Schedules
    ahead: timedelta
    now: datetime

    def call(self, what: Verb[T] | Procedure[T]) -> T:
        """Run a verb or an errand."""
        return run_procedure(self.backend.run, what) if isinstance(what, Procedure) else self.backend.run(what)

    def read(self, name: str | None = None) -> list[Schedule]:
        """Return one schedule, or all by name; of those that cannot be read, say so on stderr."""
        if name is not None:
            return [self.call(self.schedules.get(name))]
        records = self.call(self.backend.verbs.records(Kind.SCHEDULE))
        schedules, unreadable = read_schedules(records)
        for error in unreadable:
            say_failed(str(error))
        return schedules

    def last_fire(self, name: str) -> Fire | None:
        """Return what became of the last planned time of a schedule that has come."""
        fires = self.call(self.schedules.fires(name, 1, before=self.now + _A_MOMENT))
        return fires[0] if fires else None

    def counting_release(self, app: str) -> str | None:
        """Return the release of an app whose schedules count, if the store has seen one."""
        records = self.call(self.backend.verbs.records(Kind.RELEASE, (app,)))
        return read_releases(records).names[-1] if records else None

    def nobody_fires(self) -> bool:
        """Tell whether no worker is alive, so that nothing will be fired."""
        return not any(worker.is_live for worker in self.call(self.backend.verbs.workers()))


@contextmanager
def open_timetable(settings: Settings) -> Iterator[Timetable]:
    """Open the store, which must exist, and close it at the end."""
    with existing_store(settings) as backend:
        now = backend.run(ask_time(backend.verbs)).now
        ahead = timedelta(seconds=settings.look_ahead)
        yield Timetable(backend, Schedules(backend.verbs, ahead), ahead, now)


# A schedule as the fields that `--json` prints, its times in words, and what several commands say of it.

STANDING_STYLES = {
    ScheduleStatus.ACTIVE: "green",
    ScheduleStatus.PAUSED: "yellow",
    ScheduleStatus.RETIRED: "dim",
    ScheduleStatus.DONE: "dim",
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
class ScheduleView:
    """A schedule as it is at the store's `now`."""

    schedule: Schedule
    now: datetime
    standing: ScheduleStatus
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


def view_schedule(timetable: Timetable, schedule: Schedule) -> ScheduleView:
    """Look at a schedule."""
    return ScheduleView(
        schedule,
        timetable.now,
        schedule_status(schedule, timetable.now),
        next_fire(schedule, timetable.now),
        timetable.last_fire(schedule.name),
    )


def say_next(seen: ScheduleView, *, idle: bool) -> None:
    """Say when it fires next, and that nobody is there to fire it."""
    if seen.next is not None:
        say(f"Next: {zoned_words(seen.next.planned, seen.zone)} ({relative(seen.next.planned, seen.now)}).")
    elif seen.standing is ScheduleStatus.ACTIVE:
        say(f"All its times are excluded: `standfast schedules next {shlex.quote(one_line(seen.name))}` says why.")
    elif seen.standing is ScheduleStatus.DONE:
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


def schedule_fields(seen: ScheduleView) -> dict[str, Any]:
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


# `standfast schedules next`: when schedules fire next, in plain words, and when they do not and why.


@dataclass(frozen=True, slots=True)
class _Time:
    """A planned time of a schedule."""

    schedule: Schedule
    time: Upcoming
    zone: tzinfo | None


@click.command(
    "next",
    epilog=examples(
        "standfast schedules next", "standfast schedules next nightly --count 20", "standfast schedules next --json"
    ),
)
@click.argument("name", required=False)
@click.option("--count", type=click.IntRange(1, 10_000), default=10, help="So many times.")
@store_options
def next_command(wanted: StoreOptions, name: str | None, count: int) -> None:
    """Say when a schedule fires next, and when not and why.

    Without NAME the times of all schedules that are active, in their order.
    """
    with open_timetable(wanted.settings) as timetable:
        now, found = timetable.now, timetable.read(name)
        standings = {schedule.name: schedule_status(schedule, now) for schedule in found}
        obstacle = _obstacle(timetable, found[0], standings[name]) if name else None
        idle = ScheduleStatus.ACTIVE in standings.values() and timetable.nobody_fires()
    asked = found if name else [each for each in found if standings[each.name] is ScheduleStatus.ACTIVE]
    each_ones = (
        [_Time(each, time, zone_of(each.plan.rule)) for time in coming(each, now, count)] for each in asked
    )
    times = list(islice(heapq.merge(*each_ones, key=lambda each: each.time.planned), count))
    if wanted.as_json:
        say_json([_time_fields(each) for each in times])
        return
    if name:
        _tell_one(found[0], obstacle, times, now)
    else:
        _tell_all(found, times, now)
    if idle:
        say(f"\n{NOBODY_FIRES}")


def _obstacle(timetable: Timetable, schedule: Schedule, standing: ScheduleStatus) -> str | None:
    """Return why nothing is fired, whatever is planned, and what would change that; None where it is."""
    if standing is ScheduleStatus.PAUSED:
        resume = f"standfast schedules resume {shlex.quote(one_line(schedule.name))}"
        return f"It is paused: nothing of this is fired before `{resume}`."
    if standing is ScheduleStatus.RETIRED:
        return f"It is retired, so nothing of this is fired: {retired_words(timetable, schedule.plan)}"
    return None


def _time_fields(each: _Time) -> dict[str, Any]:
    time = each.time
    return {
        "schedule": each.schedule.name,
        "planned": time.planned,
        "run_at": time.run_at,
        "excluded": None if time.excluded is None else str(time.excluded),
        "note": None if time.note is None else str(time.note),
    }


def _tell_one(schedule: Schedule, obstacle: str | None, times: Sequence[_Time], now: datetime) -> None:
    name, words = one_line(schedule.name), str(describe(schedule.plan.rule, schedule.ground))
    zone = zone_of(schedule.plan.rule)
    by = "" if zone is None or str(zone) in words else f" The times are of {zone}."
    say(Text.assemble((name, "bold"), f" fires {words}.{by}"))
    if obstacle is not None:
        say(Text(obstacle, style="yellow"))
    if not times:
        say("No time is left.")
        return
    say("")
    say_table(times, [_planned(now, named=False), _distance(now), *_why_if_any(times)])


def _tell_all(found: Sequence[Schedule], times: Sequence[_Time], now: datetime) -> None:
    if times:
        say_table(
            times,
            [
                _planned(now, named=True),
                _distance(now),
                Column("SCHEDULE", lambda each: cut(each.schedule.name), shrinks=True, vital=2),
                *_why_if_any(times),
            ],
        )
    else:
        say("Nothing is planned." if found else "There is no schedule.")
    silent = sum(
        schedule_status(schedule, now) in {ScheduleStatus.PAUSED, ScheduleStatus.RETIRED} for schedule in found
    )
    if silent:
        verb = "is" if silent == 1 else "are"
        say(f"\n{counted(silent, 'schedule')} {verb} paused or retired: see `standfast schedules`.")


def _planned(now: datetime, *, named: bool) -> Column[_Time]:
    tell = zoned_words if named else clock_words
    return Column(
        "PLANNED",
        lambda each: tell(each.time.planned, each.zone),
        short=lambda each: short_clock_words(each.time.planned, None if named else each.zone, now),
    )


def _distance(now: datetime) -> Column[_Time]:
    return Column("", lambda each: relative(each.time.planned, now), vital=1)


def _why_not_fired(each: _Time) -> Text:
    time = each.time
    if time.excluded is not None:
        return Text(f"not fired: {one_line(str(time.excluded))}", style="yellow")
    put_off = f"its job starts {span(time.run_at - time.planned)} later" if time.run_at > time.planned else None
    return Text("; ".join(str(part) for part in (time.note, put_off) if part is not None))


def _why_if_any(times: Sequence[_Time]) -> list[Column[_Time]]:
    return [Column("WHY", _why_not_fired, shrinks=True, vital=2)] if any(map(_why_not_fired, times)) else []


# `standfast schedules fires`: what became of planned times, and why.

_CAUSES = {FireCause.RULE: "", FireCause.TRIGGER: "by hand", FireCause.BACKFILL: "backfill"}
_WIDE = 100


@click.command(
    epilog=examples(
        "standfast schedules fires",
        "standfast schedules fires nightly --limit 100",
        "standfast schedules fires nightly --before 2026-03-01T00:00Z --json",
    )
)
@click.argument("name", required=False)
@click.option("--limit", type=click.IntRange(1, 1000), default=20, help="About so many.")
@click.option("--before", metavar="TIME", help="Only those planned before this: the next page.")
@tz_option
@store_options
def fires(wanted: StoreOptions, /, *, name: str | None, limit: int, before: str | None, tz: str | None) -> None:
    """Show what became of planned times, the latest first.

    Without NAME those of all schedules. Of each the last 1,000 are kept, at least.
    """
    zone = None if tz is None else find_zone(tz)
    earlier = None if before is None else read_moment("--before", before, zone)
    with open_timetable(wanted.settings) as timetable:
        schedules = timetable.read(name)
        found = timetable.call(timetable.schedules.fires(name, limit, earlier))
    if wanted.as_json:
        say_json([fire_fields(fire) for fire in found])
    elif not found:
        say("Nothing was fired." if before is None else "Nothing was fired before that.")
    else:
        zones = {schedule.name: zone_of(schedule.plan.rule) for schedule in schedules}
        say_table(found, _fire_columns(found, zones, timetable.now, named=name is None))
        _tell_more(found, limit)


def _tell_more(found: Sequence[Fire], limit: int) -> None:
    if len(found) >= limit:
        say(
            f"\nThe latest {counted(len(found), 'entry', 'entries')}; for older ones add --before"
            f" {found[-1].planned.isoformat()}"
        )


def _fire_columns(
    found: Sequence[Fire], zones: Mapping[str, tzinfo | None], now: datetime, *, named: bool
) -> list[Column[Fire]]:
    schedule: Column[Fire] = Column("SCHEDULE", lambda fire: cut(fire.schedule), shrinks=True, vital=2)
    cause: Column[Fire] = Column("CAUSE", lambda fire: _CAUSES[fire.cause])
    return [
        Column(
            "PLANNED",
            lambda fire: zoned_words(fire.planned, zones.get(fire.schedule)),
            short=lambda fire: short_clock_words(fire.planned, None if named else zones.get(fire.schedule), now),
        ),
        *([schedule] if named else []),
        Column("DECISION", decision_words, vital=2),
        Column("DECIDED", _decided, from_width=_WIDE),
        *([cause] if any(fire.cause is not FireCause.RULE for fire in found) else []),
        Column("JOB", lambda fire: fire.job_id or "", short=lambda fire: short_id(fire.job_id or ""), vital=1),
        Column("WHY", lambda fire: _why_decided(fire, zones.get(fire.schedule), now), shrinks=True, vital=2),
    ]


def _decided(fire: Fire) -> str:
    """Return how long before or after its time it was decided."""
    if fire.decided_at is None:
        return ""
    distance = fire.decided_at - fire.planned
    return f"{span(distance)} {'before' if fire.decided_at < fire.planned else 'after'}"


def _why_decided(fire: Fire, zone: tzinfo | None, now: datetime) -> Text:
    until = None if fire.until is None else f"until {short_clock_words(fire.until, zone, now)}"
    return Text("; ".join(one_line(part) for part in (until, fire.note) if part))
