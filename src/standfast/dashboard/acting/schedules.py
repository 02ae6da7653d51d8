"""What can be done with schedules."""

from standfast.dashboard.access.user import Role
from standfast.dashboard.acting.schedule_edit import new_job, new_rule
from standfast.dashboard.desk import Desk
from standfast.dashboard.operation import acts
from standfast.dashboard.reading.moments import past
from standfast.dashboard.reading.schedules import schedules_of
from standfast.dashboard.reading.tasks import find_task, secrets_of
from standfast.dashboard.refusals import WrongRequestError
from standfast.dashboard.shapes.schedules import BackfillAsked, ScheduleDone, ScheduleEditAsked, SchedulePauseAsked
from standfast.dashboard.shapes.words import Named
from standfast.phrases import Phrase
from standfast.schedule.outlook import next_fire, standing_of
from standfast.schedule.plan import Schedule
from standfast.schedule.words import describe
from standfast.store.protocol import ask_time

MOST_FILLED = 10_000
"""So many times are filled by one call."""


@acts("schedules.trigger", "/schedules/{name}/trigger", Role.OPERATOR)
async def trigger_schedule(desk: Desk, asked: Named) -> ScheduleDone:
    """Fire a schedule once, now, whatever its rule says, and if it is paused too."""
    schedules = schedules_of(desk)
    job_id = await desk.ask(schedules.trigger(asked.name))
    desk.note(after=Phrase("noted.job", job=job_id))
    return await _done(desk, await desk.ask(schedules.get(asked.name)), job=job_id)


@acts("schedules.pause", "/schedules/{name}/pause", Role.OPERATOR)
async def pause_schedule(desk: Desk, asked: SchedulePauseAsked) -> ScheduleDone:
    """Let a schedule fire no more until it goes on; jobs that it has fired ahead of their time are cancelled."""
    desk.note(before=await _state(desk, asked.name))
    schedule = await desk.ask(schedules_of(desk).pause(asked.name, asked.why or None))
    return await _done(desk, schedule)


@acts("schedules.resume", "/schedules/{name}/resume", Role.OPERATOR)
async def resume_schedule(desk: Desk, asked: Named) -> ScheduleDone:
    """Let a paused schedule fire again, from now on."""
    desk.note(before=await _state(desk, asked.name))
    return await _done(desk, await desk.ask(schedules_of(desk).resume(asked.name)))


@acts("schedules.edit", "/schedules/{name}/edit", Role.ADMIN)
async def edit_schedule(desk: Desk, asked: ScheduleEditAsked) -> ScheduleDone:
    """Change when a schedule fires, or what it enqueues; what is not said stays as it is."""
    schedules = schedules_of(desk)
    before = await desk.ask(schedules.get(asked.name))
    rule = new_rule(asked)
    if rule is not None and rule(before.plan.rule) == before.plan.rule:
        rule = None
    job = new_job(asked, secrets_of(await find_task(desk, before.plan.job.task)))
    if rule is None and job is None:
        raise WrongRequestError(Phrase("refusal.no_change"))
    desk.note(before=_told(before))
    schedule = await desk.ask(schedules.edit(asked.name, rule=rule, job=job))
    done = await _done(desk, schedule)
    desk.note(after=_told(schedule))
    return done


@acts("schedules.backfill", "/schedules/{name}/backfill", Role.ADMIN)
async def backfill_schedule(desk: Desk, asked: BackfillAsked) -> ScheduleDone:
    """Enqueue a job for each planned time of a past range that was not fired."""
    schedules = schedules_of(desk)
    await desk.ask(schedules.get(asked.name))
    now = (await desk.ask(ask_time(desk.verbs))).now
    since, until = past("since", asked.since, now), past("until", asked.until, now) or now
    if since is None or since > until:
        raise WrongRequestError(Phrase("refusal.no_past"))
    times = await desk.ask(schedules.backfill_times(asked.name, since, until, again=asked.again))
    if len(times) > MOST_FILLED:
        raise WrongRequestError(Phrase("refusal.too_many_times", times=f"{len(times):,}", most=f"{MOST_FILLED:,}"))
    count = len(times)
    if not asked.dry:
        desk.note(after=Phrase("noted.begun", so_far=Phrase("noted.counted", n=count)))
        await desk.write_ahead()
        count = await desk.ask(schedules.backfill(asked.name, since, until, again=asked.again))
    done = await _done(desk, await desk.ask(schedules.get(asked.name)), count=count)
    desk.note(after=Phrase("noted.counted" if asked.dry else "noted.enqueued", n=count))
    return done


@acts("schedules.delete", "/schedules/{name}/delete", Role.ADMIN)
async def delete_schedule(desk: Desk, asked: Named) -> ScheduleDone:
    """Forget a schedule and its history; one that code declares comes back when a worker of its app starts."""
    schedule = await desk.ask(schedules_of(desk).get(asked.name))
    desk.note(before=_told(schedule))
    await desk.ask(schedules_of(desk).delete(asked.name))
    desk.note(after=Phrase("noted.deleted"))
    return ScheduleDone(name=asked.name, state="deleted")


async def _state(desk: Desk, name: str) -> Phrase:
    now = (await desk.ask(ask_time(desk.verbs))).now
    return Phrase(f"schedule_state.{standing_of(await desk.ask(schedules_of(desk).get(name)), now)}")


async def _done(
    desk: Desk, schedule: Schedule, *, job: str | None = None, count: int | None = None
) -> ScheduleDone:
    now = (await desk.ask(ask_time(desk.verbs))).now
    upcoming, state = next_fire(schedule, now), standing_of(schedule, now).value
    if job is None and count is None:
        desk.note(after=Phrase(f"schedule_state.{state}"))
    return ScheduleDone(
        name=schedule.name,
        state=state,
        next_at=None if upcoming is None else upcoming.planned,
        job=job,
        count=count,
    )


def _told(schedule: Schedule) -> Phrase:
    job = schedule.plan.job
    rule = describe(schedule.plan.rule, schedule.ground)
    known = {"task": job.task, "queue": job.queue, "priority": job.priority, "n": job.max_attempts}
    return Phrase("noted.schedule", rule=rule, **known)
