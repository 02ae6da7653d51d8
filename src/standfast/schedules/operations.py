"""What people do with schedules: declare, create, edit, pause, trigger, backfill, delete and look at them."""

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import Any, ParamSpec, Protocol

import msgspec
from msgspec.structs import replace

from standfast.errors import ConfigurationError, ScheduleUnreadableError
from standfast.model.job import NewJob
from standfast.model.phrases import Phrase
from standfast.model.records import FIRES_KEPT, Decision, Fire, FireCause, Kind, forgetting
from standfast.model.states import FINAL, State
from standfast.model.validation import name_problems, refuse_any, routing_problems
from standfast.schedules.decision import Decided, decide, pause, remembered, replan, unfinished
from standfast.schedules.declarations import Declaration
from standfast.schedules.fires import (
    TRIES,
    change_of,
    changed_by_others,
    create,
    find,
    rejudge,
    store_now,
    write_change,
)
from standfast.schedules.rules import AnyRule, Rule, moment_problems
from standfast.schedules.schedule import Run, Schedule, Template, read_schedules
from standfast.stores.contract import Store
from standfast.stores.verb import Procedure, Verb, Verbs, procedure

AT_ONCE = 100
"""How many jobs one step enqueues."""

MOST = 100_000
"""How many fires a backfill may have: more is a mistake in the range."""

_SECOND_MOMENT = datetime.min.replace(tzinfo=UTC) + timedelta.resolution
_ON_TIME = frozenset({Decision.FIRED, Decision.CAUGHT_UP, Decision.QUEUED})


def times_to_fill(
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
    times = list(islice(takewhile(lambda time: time <= last, after), MOST + 1))
    if len(times) > MOST:
        raise ConfigurationError(f"the range has more than {MOST:,} planned times: choose a shorter one")
    fired = set[datetime]()
    if not again:
        fired = yield from _all_fired(verbs, name, since)
    return [time for time in times if time not in fired and rule.excluded(time) is None]


def fill(verbs: Store, name: str, times: Sequence[datetime], *, again: bool) -> Verbs[int]:
    """Enqueue jobs for these times, but unless `again` none that another backfill has enqueued meanwhile."""
    for _ in range(TRIES):
        schedule = yield from find(verbs, name)
        now = yield from store_now(verbs)
        fired = set[datetime]()
        if not again:
            fired, _ = yield from _fired(verbs, name, times[0], times[-1] + timedelta.resolution)
        left = [time for time in times if time not in fired]
        made = yield from write_change(verbs, change_of(schedule, _backfilled(schedule, left, now)))
        if made:
            return len(left)
    raise changed_by_others(name)


def _backfilled(schedule: Schedule, times: Sequence[datetime], now: datetime) -> Decided:
    jobs = [schedule.plan.job.job(schedule.name, time, now) for time in times]
    fires = [
        Fire(
            schedule.name,
            time,
            Decision.FIRED,
            FireCause.BACKFILL,
            job_id=job.id,
            note=str(Phrase("fired.backfilled")),
        )
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


log = logging.getLogger(__name__)

P = ParamSpec("P")


class Schedulable(Protocol[P]):
    """What a schedule can enqueue: a task, or a task with options."""

    def args(self, *args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
        """Return arguments by name."""
        ...

    def scheduled(self, schedule: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> NewJob:
        """Return the job that a schedule enqueues. Raises ConfigurationError for options about one job."""
        ...


def declare(
    name: str, task: Schedulable[...], rule: AnyRule, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Declaration:
    """Return a checked declaration. Raises ConfigurationError or ArgumentsError."""
    refuse_any(name_problems("schedule", name))
    _check_rule(name, rule)
    if not hasattr(task, "scheduled"):
        raise ConfigurationError(f"schedule {name!r} needs a task of the app, not {task!r:.80}")
    return Declaration(name, rule, Template.of(task.scheduled(name, args, kwargs)))


class Schedules:
    """What can be done with schedules. Each method returns what `app.call` or `await app.acall` then does."""

    def __init__(self, verbs: Store, ahead: timedelta) -> None:
        self._verbs = verbs
        self._ahead = ahead

    def create(
        self, name: str, task: Schedulable[P], rule: AnyRule, /, *args: P.args, **kwargs: P.kwargs
    ) -> Procedure[Schedule]:
        """Make a schedule that outlives this process. Raises ScheduleExistsError where its name is taken."""
        made = declare(name, task, rule, args, kwargs)
        return create(self._verbs, made.name, made.rule, made.job, self._ahead)

    @procedure
    def edit(
        self,
        name: str,
        *,
        rule: AnyRule | Callable[[AnyRule], AnyRule] | None = None,
        job: Callable[[Template], Template] | None = None,
    ) -> Verbs[Schedule]:
        """Change when it fires, the job that it enqueues, or both; a function makes the new one of the old.

        What it has fired ahead of its time is taken back, unless a worker has it. A schedule that was declared in
        code stays changed until its declaration is.
        """

        def changed(schedule: Schedule, now: datetime, states: Mapping[str, State]) -> Decided:
            plan = schedule.plan
            template = plan.job if job is None else job(plan.job)
            other = plan.rule if rule is None else rule if isinstance(rule, Rule) else rule(plan.rule)
            _check_edited(name, other, template)
            return replan(schedule, replace(plan, rule=other, job=template), now, self._ahead, states)

        if not (rule is None or callable(rule)):
            _check_rule(name, rule)
        return (yield from rejudge(self._verbs, name, changed))

    @procedure
    def pause(self, name: str, why: str | None = None) -> Verbs[Schedule]:
        """Let it fire no more until it is resumed; what it has fired ahead of its time is cancelled."""

        def paused(schedule: Schedule, now: datetime, states: Mapping[str, State]) -> Decided:
            if schedule.plan.paused_at is not None:
                return Decided(schedule.plan, None)
            return pause(schedule, now, why, states)

        return (yield from rejudge(self._verbs, name, paused))

    @procedure
    def resume(self, name: str) -> Verbs[Schedule]:
        """Let it fire again, from now on: what was planned meanwhile is not made up for."""

        def resumed(schedule: Schedule, now: datetime, states: Mapping[str, State]) -> Decided:
            if schedule.plan.paused_at is None:
                return decide(schedule, now, self._ahead, states)
            runs = unfinished(schedule.plan.runs, states)
            plan = replace(schedule.plan, paused_at=None, paused_why=None, runs=runs)
            return replan(schedule, plan, now, self._ahead, states)

        return (yield from rejudge(self._verbs, name, resumed))

    @procedure
    def trigger(self, name: str) -> Verbs[str]:
        """Fire once, now, whatever its rule says; the answer is the id of the job."""

        def triggered(schedule: Schedule, now: datetime, states: Mapping[str, State]) -> Decided:
            plan = schedule.plan
            heeded = FINAL - {State.DEAD} if plan.rule.pause_on_failure else FINAL
            known = [run for run in plan.runs if states.get(run.job_id, State.COMPLETED) not in heeded]
            new = plan.job.job(name, now, now)
            fire = Fire(
                name, now, Decision.FIRED, FireCause.TRIGGER, job_id=new.id, note=str(Phrase("fired.by_hand"))
            )
            runs = (*remembered(known, now), Run(new.id, now))
            return Decided(replace(plan, runs=runs), schedule.due_at, (fire,), (new,))

        schedule = yield from rejudge(self._verbs, name, triggered)
        return schedule.plan.runs[-1].job_id

    @procedure
    def delete(self, name: str) -> Verbs[None]:
        """Forget it and its fires; one that code declares comes back when a worker starts."""

        def ended(schedule: Schedule, now: datetime, states: Mapping[str, State]) -> Decided:
            return pause(schedule, now, None, states)

        try:
            yield from rejudge(self._verbs, name, ended, forget=True)
        except ScheduleUnreadableError:  # nobody here knows more of it than its name
            (record,) = yield self._verbs.records(Kind.SCHEDULE, (name,))
            if not (yield from write_change(self._verbs, forgetting(record))):
                raise

    @procedure
    def backfill(
        self,
        name: str,
        since: datetime,
        until: datetime,
        *,
        again: bool = False,
        progress: Callable[[int, int], None] = lambda _done, _total: None,
    ) -> Verbs[int]:
        """Enqueue a job for each planned time of a past range that was not fired; the answer is how many.

        With `again` also for those that were. `progress` hears how many are enqueued, and of how many. Times about
        which a schedule that goes on has not decided yet are left to it.
        """
        wanted = yield from times_to_fill(self._verbs, name, since, until, again=again)
        filled = 0
        for start in range(0, len(wanted), AT_ONCE):
            progress(start, len(wanted))
            filled += yield from fill(self._verbs, name, wanted[start : start + AT_ONCE], again=again)
        progress(len(wanted), len(wanted))
        return filled

    @procedure
    def backfill_times(
        self, name: str, since: datetime, until: datetime, *, again: bool = False
    ) -> Verbs[tuple[datetime, ...]]:
        """Look at the planned times for which `backfill` would enqueue a job."""
        return tuple((yield from times_to_fill(self._verbs, name, since, until, again=again)))

    @procedure
    def get(self, name: str) -> Verbs[Schedule]:
        """Look at a schedule. Raises ScheduleNotFoundError."""
        return (yield from find(self._verbs, name))

    @procedure
    def list(self) -> Verbs[tuple[Schedule, ...]]:
        """Look at all schedules, by name; one that cannot be read here is left out, and the log tells of it."""
        records = yield self._verbs.records(Kind.SCHEDULE)
        schedules, unreadable = read_schedules(records)
        for error in unreadable:
            log.warning("%s", error)
        return tuple(schedules)

    def fires(
        self, name: str | None = None, limit: int = 50, before: datetime | None = None
    ) -> Verb[tuple[Fire, ...]]:
        """Look at what became of the planned times of one schedule or of all, the latest first."""
        return self._verbs.fires(name, limit, before)


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


def _check_rule(name: str, rule: object) -> None:
    if not isinstance(rule, Rule):
        raise ConfigurationError(
            f'schedule {name!r} needs a rule such as Cron("0 2 * * *") or Every(300), not {rule!r:.80}'
        )
