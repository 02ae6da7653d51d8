"""Fires that were decided ahead of their time, and for which nobody was there when it came.

Their jobs were enqueued some seconds before, and so the history says that they fired. They started when somebody
was there again, which is as if they had been caught up then.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from standfast.core.job import Attempt
from standfast.core.record import Decision, Fire, FireCause, Kind, Record
from standfast.schedule.plan import Schedule, read_schedules
from standfast.store.errand import Verbs
from standfast.store.protocol import Store, Worker

MOST = 20
"""Of how many fires one look asks when their jobs started: of each schedule the last, and of these the latest."""


ASKED_FOR = timedelta(minutes=15)
"""So long it is asked again whether a job has started: what waits longer does so because of its queue."""


class AheadFires:
    """Asks once after each time that whoever looks was not there, and remembers what it has found.

    Of jobs that have not started yet, such as those that a lost worker had, it asks again.
    """

    def __init__(self) -> None:
        self._asked_for: datetime | None = None
        self._open: tuple[Fire, ...] = ()
        self._made_up_for: tuple[Fire, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether there is one to ask again about."""
        return bool(self._open)

    def look(
        self,
        verbs: Store,
        fires: Iterable[Fire],
        workers: Sequence[Worker],
        away: tuple[datetime | None, datetime],
        now: datetime,
    ) -> Verbs[tuple[Fire, ...]]:
        """Return the fires that were made up for, as if decided when their jobs started.

        `away` is from when until when whoever looks was not there; from None, if it had not come before.
        """
        since, until = away
        if until > now:  # it cannot be sure of that yet
            return self._made_up_for
        if until != self._asked_for:
            self._asked_for, self._made_up_for = until, ()
            self._open = last_ahead(fires, since, until)
        if self._open:
            records: Sequence[Record] = yield verbs.records(Kind.SCHEDULE, [fire.schedule for fire in self._open])
            schedules = {schedule.name: schedule for schedule in read_schedules(records)[0]}
            others = () if since is not None else workers
            yield from self._ask(verbs, schedules, others, now)
        if now - until > ASKED_FOR:
            self._open = ()
        return self._made_up_for

    def _ask(
        self, verbs: Store, schedules: dict[str, Schedule], others: Sequence[Worker], now: datetime
    ) -> Verbs[None]:
        waiting = []
        for fire in self._open:
            schedule = schedules.get(fire.schedule)
            at = None if schedule is None else missed_at(fire, schedule)
            if at is None or at > now or any(each.is_live and each.started_at <= at for each in others):
                continue
            attempts: tuple[Attempt, ...] = yield verbs.history(fire.job_id or "")
            started_at = min((each.started_at for each in attempts if each.started_at is not None), default=None)
            if started_at is None:
                waiting.append(fire)
            elif started_at > at:
                caught_up = replace(fire, decision=Decision.CAUGHT_UP, decided_at=started_at)
                self._made_up_for = (*self._made_up_for, caught_up)
        self._open = tuple(waiting)


def last_ahead(fires: Iterable[Fire], since: datetime | None, until: datetime) -> tuple[Fire, ...]:
    """Return the last fire of each schedule that was decided ahead, of a time when nobody may have been there."""
    last: dict[str, Fire] = {}
    for fire in fires:
        fired = fire.decision is Decision.FIRED and fire.cause is FireCause.RULE and fire.job_id is not None
        ahead = fire.decided_at is not None and fire.decided_at <= fire.planned
        if fired and ahead and fire.planned < until and (since is None or fire.planned > since):
            known = last.setdefault(fire.schedule, fire)
            last[fire.schedule] = max(known, fire, key=lambda each: each.planned)
    return tuple(sorted(last.values(), key=lambda each: each.planned, reverse=True)[:MOST])


def missed_at(fire: Fire, schedule: Schedule) -> datetime:
    """Return from when on the time of a fire counts as missed."""
    rule = schedule.plan.rule
    return rule.run_at(fire.planned, schedule.ground) + timedelta(seconds=rule.misfire_after)
