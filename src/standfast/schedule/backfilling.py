"""Backfill: jobs for the planned times of a past range."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile

from standfast.core.record import FIRES_KEPT, Decision, Fire, FireCause
from standfast.errors import ConfigurationError
from standfast.phrases import Phrase
from standfast.policy.problems import refuse_any
from standfast.schedule.deciding import Decided
from standfast.schedule.errands import TRIES, change_of, changed_by_others, find, store_now, write_change
from standfast.schedule.options import moment_problems
from standfast.schedule.plan import Schedule
from standfast.store.errand import Verbs
from standfast.store.protocol import Store

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
