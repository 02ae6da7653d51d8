"""What becomes of the planned times of a schedule. Pure: the same question always has the same answer.

    planned ──► excluded by the calendar?
       │        nobody was there for longer than `misfire_after`? then as `misfire` says
       │        a run before it is not over? then as `overlap` says: at its own time, not ahead of it
       └──────► fired

A time is decided up to `ahead` before it comes, so that its job lies ready to start on the millisecond. Only where
a run before it may still be in its way at that time the decision waits for the time itself.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice, takewhile

from msgspec.structs import replace

from standfast.model.job import NewJob
from standfast.model.phrases import Phrase
from standfast.model.records import Decision, Fire, FireCause
from standfast.model.states import FINAL, WAITING, State
from standfast.schedules.rules import Misfire, Overlap
from standfast.schedules.schedule import Plan, Run, Schedule

LOOK_AGAIN = timedelta(seconds=1)
"""How soon to look again for the end of the run that a fire waits for."""

COUNTED = 10_000
"""How many missed times are counted one by one, at most."""

MOST_WAITING = 1000
"""How many fires wait for runs before them, at most."""

MOST_RUNS = 100
"""How many runs are kept in mind, at most: the latest, and all those whose time has not come."""


@dataclass(frozen=True, slots=True)
class Decided:
    """A schedule after a look at it: what to write, all of it or nothing."""

    plan: Plan
    due_at: datetime | None
    fires: tuple[Fire, ...] = ()
    jobs: tuple[NewJob, ...] = ()
    cancels: tuple[str, ...] = ()
    withdraws: tuple[str, ...] = ()


def decide(
    schedule: Schedule,
    now: datetime,
    ahead: timedelta,
    states: Mapping[str, State],
    taken: frozenset[datetime] = frozenset(),
    *,
    lead: timedelta = timedelta(0),
) -> Decided:
    """Decide all that can be decided now. `states` are those of the runs; a job that is not there is over.

    Times that are `taken` have been fired already. With `lead`, those are decided too that need it so much later.
    """
    judgement = _Judgement(schedule, now, ahead, states, taken, lead)
    if not judgement.plan.active:
        return Decided(judgement.plan, None)
    died = judgement.see_runs()
    if died is not None and judgement.plan.rule.pause_on_failure:
        died_at = died.planned.isoformat(timespec="seconds")
        why = str(Phrase("fired.job_dead", job=died.job_id, planned=died_at))
        return pause(schedule, now, why, states)
    judgement.serve_waiting()
    upcoming = judgement.go_through_times()
    judgement.cancel_running()
    return judgement.decided(upcoming)


def pause(schedule: Schedule, now: datetime, why: str | None, states: Mapping[str, State]) -> Decided:
    """Stop a schedule: what was fired ahead of its time is taken back, or asked back where a worker has it."""
    plan = replace(schedule.plan, paused_at=now, paused_why=why)
    told = Phrase("fired.paused") if why is None else Phrase("fired.paused_because", why=why)
    return _stopped(schedule, plan, now, states, str(told))


def retire(schedule: Schedule, now: datetime, states: Mapping[str, State]) -> Decided:
    """Stop a schedule that is declared no more."""
    plan = replace(schedule.plan, retired_at=now)
    return _stopped(schedule, plan, now, states, str(Phrase("fired.retired")))


def replan(schedule: Schedule, plan: Plan, now: datetime, ahead: timedelta, states: Mapping[str, State]) -> Decided:
    """Let another plan hold from now on. A fire ahead of its time that a worker already has stands as it is.

    Where runs may overlap, times before and between such fires are decided now; else they go with them.
    """
    why = str(Phrase("fired.changed"))
    withdrawn = [run for run in _ahead(plan, now, states) if states[run.job_id] in WAITING]
    standing = tuple(run for run in plan.runs if run not in withdrawn)
    taken = frozenset(run.planned for run in standing if run.planned > now)
    last = max(taken, default=now)
    overlapping = plan.rule.overlap is Overlap.ALLOW
    plan = replace(plan, runs=standing, waiting=(), cursor=now if overlapping else last)
    fires = _revoked(schedule, withdrawn, why) + _given_up(schedule, why)
    decided = decide(Schedule(schedule.name, schedule.version, plan), now, max(ahead, last - now), states, taken)
    again = {(fire.planned, fire.cause) for fire in decided.fires}
    return dataclasses.replace(
        decided,
        fires=(*(fire for fire in fires if (fire.planned, fire.cause) not in again), *decided.fires),
        withdraws=tuple(run.job_id for run in withdrawn),
    )


def unfinished(runs: Sequence[Run], states: Mapping[str, State]) -> tuple[Run, ...]:
    """Return the runs that are not over."""
    return tuple(run for run in runs if states.get(run.job_id, State.COMPLETED) not in FINAL)


def remembered(runs: Sequence[Run], now: datetime) -> tuple[Run, ...]:
    """Return the runs that are kept in mind: one ahead of its time that was forgotten could not be taken back."""
    come = [run for run in runs if run.planned <= now]
    return (*come[-MOST_RUNS:], *(run for run in runs if run.planned > now))


def _stopped(schedule: Schedule, plan: Plan, now: datetime, states: Mapping[str, State], why: str) -> Decided:
    back = _ahead(plan, now, states)
    return Decided(
        replace(plan, waiting=()),  # a worker that has a run may start it before it hears: it stays in mind
        None,
        _revoked(schedule, back, why) + _given_up(schedule, why),
        cancels=tuple(run.job_id for run in back),
    )


def _ahead(plan: Plan, now: datetime, states: Mapping[str, State]) -> list[Run]:
    """Return the runs that were fired ahead of a time that has not come, and are not over all the same."""
    return [run for run in unfinished(plan.runs, states) if run.planned > now]


def _revoked(schedule: Schedule, runs: Sequence[Run], why: str) -> tuple[Fire, ...]:
    return tuple(Fire(schedule.name, run.planned, Decision.REVOKED, job_id=run.job_id, note=why) for run in runs)


def _given_up(schedule: Schedule, why: str) -> tuple[Fire, ...]:
    return tuple(Fire(schedule.name, time, Decision.REVOKED, note=why) for time in schedule.plan.waiting)


@dataclass(slots=True)
class _Judgement:
    """What is decided about a schedule, while it is worked on."""

    schedule: Schedule
    now: datetime
    ahead: timedelta
    states: Mapping[str, State]
    taken: frozenset[datetime]
    lead: timedelta
    plan: Plan = field(init=False)
    fires: list[Fire] = field(default_factory=list)
    jobs: list[NewJob] = field(default_factory=list)
    cancels: list[str] = field(default_factory=list)
    runs: list[Run] = field(init=False)
    waiting: list[datetime] = field(init=False)
    cursor: datetime = field(init=False)

    def __post_init__(self) -> None:
        self.plan = self.schedule.plan
        self.runs = list(self.plan.runs)
        self.waiting = list(self.plan.waiting)
        self.cursor = self.plan.cursor

    def see_runs(self) -> Run | None:
        """Forget the runs that are over or matter no more; return one that died, if any did."""
        died = next((run for run in self.runs if self.states.get(run.job_id) is State.DEAD), None)
        rule = self.plan.rule
        heeded = rule.overlap is not Overlap.ALLOW or rule.pause_on_failure
        self.runs = [run for run in unfinished(self.runs, self.states) if heeded or run.planned > self.now]
        return died

    def serve_waiting(self) -> None:
        """Fire what has waited for a run that is over by now."""
        if self.waiting and not self.runs:
            planned = self.waiting.pop(0)
            # With "skip" a time waits only if it was missed.
            decision = Decision.CAUGHT_UP if self.plan.rule.overlap is Overlap.SKIP else Decision.FIRED
            self.fire(planned, decision, self.now, Phrase("fired.waited"))

    def cancel_running(self) -> None:
        """Cancel what a newer one waits for. A run that began with this look is cancelled by the next one."""
        if self.plan.rule.overlap is Overlap.CANCEL_RUNNING and self.waiting:
            made = {job.id for job in self.jobs}
            self.cancels += [run.job_id for run in self.runs if run.job_id not in made]

    def go_through_times(self) -> datetime | None:
        """Decide time after time; return the next one that is not decided yet, if any."""
        tolerated = timedelta(seconds=self.plan.rule.misfire_after)
        self.go_through_missed(self.now - tolerated - timedelta.resolution)
        times = self.plan.rule.times_after(self.cursor, self.schedule.ground)
        overlaps = self.plan.rule.overlap is not Overlap.ALLOW
        upcoming = next(times, None)
        while upcoming is not None:
            # A run may still be in its way: then it is decided only when it comes.
            waits = overlaps and (self.runs or self.waiting) and upcoming > self.now
            if waits or upcoming > self.now + self.ahead + self.lead:
                return upcoming
            self.cursor = upcoming
            if upcoming not in self.taken:
                reason = self.plan.rule.excluded(upcoming)
                if reason is None:
                    self.come_to(upcoming, Decision.FIRED)
                else:
                    self.note_unfired(upcoming, Decision.EXCLUDED, reason)
            upcoming = next(times, None)
        return None

    def go_through_missed(self, until: datetime) -> None:
        """Decide about the times up to this one, for which nobody was there."""
        missed: list[datetime] = []
        for time in self.missed_times(until):
            self.cursor = time
            reason = self.plan.rule.excluded(time)
            if reason is None:
                missed.append(time)
            else:
                self.note_unfired(time, Decision.EXCLUDED, reason)
        self.catch_up(missed)
        self.cursor = max(self.cursor, until)

    def missed_times(self, until: datetime) -> list[datetime]:
        """Return the times up to this one; where there are more than can be counted, the latest of them."""

        def after(moment: datetime) -> list[datetime]:
            times = self.plan.rule.times_after(moment, self.schedule.ground)
            return list(islice(takewhile(lambda time: time <= until, times), COUNTED + 1))

        found = after(self.cursor)
        if len(found) <= COUNTED:
            return found
        first, span, latest = found[0], timedelta(seconds=1), list[datetime]()
        while len(found := after(until - span)) <= COUNTED:
            latest, span = found, span * 2
        self.note_unfired(first, Decision.MISSED, Phrase("fired.too_many"))
        return latest

    def catch_up(self, missed: list[datetime]) -> None:
        """Fire none, the last, or all of the missed times, as the rule says: one after the other, or at once."""
        if not missed:
            return
        rule = self.plan.rule
        chosen: list[datetime] = []
        why = Phrase("fired.skipped")
        if rule.misfire is Misfire.ONCE:
            chosen = missed[-1:]
            why = Phrase("fired.caught_up_once", planned=missed[-1].isoformat(timespec="seconds"))
        elif rule.misfire is Misfire.ALL:
            window = None if rule.catch_up_window is None else timedelta(seconds=rule.catch_up_window)
            chosen = [time for time in missed if window is None or time >= self.now - window][
                -rule.catch_up_limit :
            ]
            why = Phrase("fired.caught_up_last", limit=rule.catch_up_limit)
            if window is not None:
                why = Phrase("fired.caught_up_within", limit=rule.catch_up_limit, window=str(window))
        for time in missed[: len(missed) - len(chosen)]:
            self.note_unfired(time, Decision.MISSED, why)
        if rule.overlap is Overlap.CANCEL_RUNNING:  # each would be cancelled for the next
            for time in chosen[:-1]:
                self.note_unfired(time, Decision.OVERLAPPED, Phrase("fired.replaced"))
            chosen = chosen[-1:]
        for time in chosen:
            self.come_to(time, Decision.CAUGHT_UP)

    def come_to(self, planned: datetime, decision: Decision) -> None:
        """Fire, or do what is to be done where a run before is not over."""
        overlap, late = self.plan.rule.overlap, decision is Decision.CAUGHT_UP
        if overlap is Overlap.ALLOW or not (self.runs or self.waiting):
            run_at = self.plan.rule.run_at(planned, self.schedule.ground)
            why = Phrase("fired.missed") if late else None
            self.fire(planned, decision, max(run_at, self.now) if late else run_at, why)
            return
        if overlap is Overlap.SKIP and not late:
            self.note_unfired(planned, Decision.OVERLAPPED, self.in_the_way("fired.was_not_over"))
            return
        if overlap is Overlap.CANCEL_RUNNING:  # a newer one takes the place of those that wait
            for earlier in self.waiting:
                self.note_unfired(earlier, Decision.OVERLAPPED, Phrase("fired.replaced"))
            self.waiting.clear()
        queues_all = overlap is Overlap.QUEUE_ALL or (late and overlap is not Overlap.CANCEL_RUNNING)
        most = MOST_WAITING if queues_all else 1
        if len(self.waiting) >= most:
            says = self.in_the_way("fired.was_not_over")
            note = (
                Phrase("fired.one_waits", says=says)
                if most == 1
                else Phrase("fired.many_wait", says=says, count=most)
            )
            self.note_unfired(planned, Decision.OVERLAPPED, note)
            return
        self.waiting.append(planned)
        queued = str(self.in_the_way("fired.is_not_over"))
        self.fires.append(Fire(self.schedule.name, planned, Decision.QUEUED, note=queued))

    def in_the_way(self, code: str) -> Phrase:
        """Say so with which runs are not over, and how they stand; those of this look have no state yet."""
        says = Phrase(code)
        if not self.runs:
            return says
        first, *others = self.runs
        state = self.states.get(first.job_id)
        how = {"job": first.job_id, "state": Phrase("fired.just_fired" if state is None else f"state.{state}")}
        if others:
            return Phrase("fired.in_the_way_more", says=says, more=len(others), **how)
        return Phrase("fired.in_the_way", says=says, **how)

    def fire(self, planned: datetime, decision: Decision, run_at: datetime, why: Phrase | None) -> None:
        """Enqueue the job of a planned time."""
        job = self.plan.job.job(self.schedule.name, planned, run_at)
        self.jobs.append(job)
        self.runs.append(Run(job.id, planned))
        note = None if why is None else str(why)
        self.fires.append(Fire(self.schedule.name, planned, decision, job_id=job.id, note=note))

    def note_unfired(self, planned: datetime, decision: Decision, reason: Phrase) -> None:
        """Write down that a time was not fired, and why; many in a row of one kind are one entry."""
        note = str(reason)
        last = self.fires[-1] if self.fires else None
        if last is not None and last.decision is decision and last.note == note and last.cause is FireCause.RULE:
            self.fires[-1] = replace(last, count=last.count + 1, until=planned)
        else:
            self.fires.append(Fire(self.schedule.name, planned, decision, note=note))

    def decided(self, upcoming: datetime | None) -> Decided:
        """Return all that was decided, with when to look again."""
        due_at = upcoming
        if upcoming is not None and upcoming - self.ahead > self.now:
            due_at = upcoming - self.ahead
        if self.waiting:
            due_at = self.now + LOOK_AGAIN if due_at is None else min(due_at, self.now + LOOK_AGAIN)
        plan = replace(
            self.plan, cursor=self.cursor, runs=remembered(self.runs, self.now), waiting=tuple(self.waiting)
        )
        return Decided(plan, due_at, tuple(self.fires), tuple(self.jobs), tuple(self.cancels))
