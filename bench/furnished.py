"""All that people look at besides jobs: figures of thirty days, incidents, schedules, the audit trail, locks."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from uuid import uuid4

import msgspec

from standfast import Every, Standfast
from standfast.admin.audit_trail import MOST_ENTRIES, NEWEST, Chunk, Entry
from standfast.durable.lockstate import LockRequest, take
from standfast.model.incidents import Evidence, Incident, InvolvedJob, Trouble
from standfast.model.records import Change, Kind, writing
from standfast.observe.catalogue import Bound, Catalogue, Parameter, QueueEntry, TaskEntry, publish
from standfast.observe.figures.counts import Row
from standfast.observe.figures.rollup import HOUR, MINUTE, TEN_MINUTES, Gauges, Level, QueueGauge, Rollup, to_time
from standfast.observe.incidents import changes_of

INCIDENTS = 100
CHUNKS = 30
"""So many full records the audit trail has."""
SCHEDULES = 12
LOCKS = 20
_AT_ONCE = 100


def furnish(
    app: Standfast, tasks: Mapping[str, str], dead: Sequence[str], running: Sequence[str]
) -> tuple[str, str]:
    """Write all of it, given tasks with their queues; return the id of an incident and the name of a schedule."""
    now = datetime.now(UTC)
    incidents = list(_incidents(dead, now))
    changes = [each for incident in incidents for each in changes_of(incident, _evidence(), 0)]
    _write(app, iter([*changes, *_audit(now), *_figures(tasks, now)]))
    app.call(publish(app.verbs, _catalogue(tasks, now)))
    for number in range(LOCKS):
        bid = LockRequest(str(uuid4()), timedelta(hours=5), owner=f"job {running[number % len(running)]}")
        app.call(take(app.verbs, Kind.LOCK, f"customer-{number}", bid))
    return incidents[0].id, _schedules(app)


def _write(app: Standfast, changes: Iterator[Change]) -> None:
    while some := list(islice(changes, _AT_ONCE)):
        app.call(app.verbs.change_records(some))


def _incidents(dead: Sequence[str], now: datetime) -> Iterator[Incident]:
    for number in range(INCIDENTS):
        at = now - timedelta(hours=7 * number)
        yield Incident(
            id=f"{uuid4()}",
            trouble=Trouble.CRASH if number % 2 else Trouble.OUT_OF_MEMORY,
            summary=f"process 4{number:03} ended by signal 9",
            at=at,
            last_at=at,
            host="web-01",
            worker=f"{number:016x}",
            jobs=(InvolvedJob(dead[number % len(dead)], 1, "send_email", 1),),
        )


def _evidence() -> Evidence:
    return Evidence({"stacks": 'File "/app/shop.py", line 42\n' * 100, "log": "all was well\n" * 200})


def _audit(now: datetime) -> Iterator[Change]:
    for number in range(1, CHUNKS + 1):
        entries = tuple(
            Entry(
                now - timedelta(minutes=(CHUNKS - number) * MOST_ENTRIES + MOST_ENTRIES - each),
                f"person-{each % 7}",
                ("jobs.retry", "queues.pause", "jobs.cancel")[each % 3],
                {"id": str(uuid4())},
                before="dead",
                after="ready",
                id=uuid4().hex,
            )
            for each in range(MOST_ENTRIES)
        )
        name = NEWEST if number == CHUNKS else str(number)
        yield Change(Kind.AUDIT, name, 0, str(uuid4()), msgspec.json.encode(Chunk(number, entries)))


def _figures(tasks: Mapping[str, str], now: datetime) -> Iterator[Change]:
    """Yield pages as fine and as old as they are kept, each taken in by the one above."""
    seconds = int(now.timestamp())
    for level in (HOUR, TEN_MINUTES, MINUTE):
        for start in range(level.start(seconds - level.kept), level.start(seconds), level.seconds):
            yield writing(
                Kind.FIGURES, level.name(start), _page(tasks, level, start), to_time(level.ends_at(start))
            )


def _page(tasks: Mapping[str, str], level: Level, start: int) -> Rollup:
    many = level.seconds * (2 + start // level.seconds % 5)
    rows = tuple(
        Row(queue, task, many, many // 50, many // 200, 0, 0, many * 20_000, (5, many // 2, many // 2), (0, many))
        for task, queue in tasks.items()
    )
    gauges = Gauges(10, 40, tuple(QueueGauge(queue, 20, 0.5) for queue in sorted(set(tasks.values()))))
    of = tuple(range(start, start + level.seconds, 600 if level is HOUR else 60)) if level is not MINUTE else ()
    return Rollup(rows, gauges, of=of)


def _catalogue(tasks: Mapping[str, str], now: datetime) -> Catalogue:
    entries = [
        TaskEntry(task, queue=queue, doc="Do it.", parameters=(Parameter("to", "str"), Parameter("order", "int")))
        for task, queue in tasks.items()
    ]
    entries += [TaskEntry(f"seldom_{number}", doc="Do it seldom.") for number in range(40)]
    queues = tuple(QueueEntry(queue, Bound(20)) for queue in sorted(set(tasks.values())))
    return Catalogue("shop", "2026.11", now, "web-01", "1", tuple(entries), queues)


def _schedules(app: Standfast) -> str:
    @app.task
    def nightly() -> None:
        """Do what is done every night."""

    for number in range(SCHEDULES):
        name = f"nightly-{number}"
        app.call(app.schedules.create(name, nightly, Every(timedelta(hours=24 + number))))
        for _ in range(5):
            app.call(app.schedules.trigger(name))
    return "nightly-0"
