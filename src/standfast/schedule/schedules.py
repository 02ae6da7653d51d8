"""Schedules as people deal with them: declared in code, or made, changed and looked at while the system runs."""

import logging
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, ParamSpec, Protocol
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from standfast.core.job import NewJob
from standfast.core.record import Change, Decision, Fire, FireCause, Kind
from standfast.core.states import FINAL, State
from standfast.errors import ConfigurationError, ScheduleUnreadableError
from standfast.phrases import Phrase
from standfast.policy.problems import name_problems, refuse_any, routing_problems
from standfast.schedule.backfilling import AT_ONCE, fill, times_to_fill
from standfast.schedule.deciding import Decided, decide, pause, remembered, replan, unfinished
from standfast.schedule.declaring import Declaration
from standfast.schedule.errands import create, find, rejudge, write_change
from standfast.schedule.plan import Run, Schedule, Template, read_schedules
from standfast.schedule.rules import AnyRule, Rule
from standfast.store.errand import Errand, Verbs, errand
from standfast.store.protocol import Store
from standfast.store.verb import Verb

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
    name: str,
    task: Schedulable[...],
    rule: AnyRule,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
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
    ) -> Errand[Schedule]:
        """Make a schedule that outlives this process. Raises ScheduleExistsError where its name is taken."""
        made = declare(name, task, rule, args, kwargs)
        return create(self._verbs, made.name, made.rule, made.job, self._ahead)

    @errand
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

    @errand
    def pause(self, name: str, why: str | None = None) -> Verbs[Schedule]:
        """Let it fire no more until it is resumed; what it has fired ahead of its time is cancelled."""

        def paused(schedule: Schedule, now: datetime, states: Mapping[str, State]) -> Decided:
            if schedule.plan.paused_at is not None:
                return Decided(schedule.plan, None)
            return pause(schedule, now, why, states)

        return (yield from rejudge(self._verbs, name, paused))

    @errand
    def resume(self, name: str) -> Verbs[Schedule]:
        """Let it fire again, from now on: what was planned meanwhile is not made up for."""

        def resumed(schedule: Schedule, now: datetime, states: Mapping[str, State]) -> Decided:
            if schedule.plan.paused_at is None:
                return decide(schedule, now, self._ahead, states)
            runs = unfinished(schedule.plan.runs, states)
            plan = replace(schedule.plan, paused_at=None, paused_why=None, runs=runs)
            return replan(schedule, plan, now, self._ahead, states)

        return (yield from rejudge(self._verbs, name, resumed))

    @errand
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

    @errand
    def delete(self, name: str) -> Verbs[None]:
        """Forget it and its fires; one that code declares comes back when a worker starts."""

        def ended(schedule: Schedule, now: datetime, states: Mapping[str, State]) -> Decided:
            return pause(schedule, now, None, states)

        try:
            yield from rejudge(self._verbs, name, ended, forget=True)
        except ScheduleUnreadableError:  # nobody here knows more of it than its name
            (record,) = yield self._verbs.records(Kind.SCHEDULE, (name,))
            change = Change(Kind.SCHEDULE, name, record.version, str(uuid4()), None, after=record.token)
            if not (yield from write_change(self._verbs, change)):
                raise

    @errand
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

    @errand
    def backfill_times(
        self, name: str, since: datetime, until: datetime, *, again: bool = False
    ) -> Verbs[tuple[datetime, ...]]:
        """Look at the planned times for which `backfill` would enqueue a job."""
        return tuple((yield from times_to_fill(self._verbs, name, since, until, again=again)))

    @errand
    def get(self, name: str) -> Verbs[Schedule]:
        """Look at a schedule. Raises ScheduleNotFoundError."""
        return (yield from find(self._verbs, name))

    @errand
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
