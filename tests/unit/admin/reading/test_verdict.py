"""The verdict: what is wrong is found, called by its name and its severity; what is well is not called wrong."""

import time
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from dashboard_stage import ARGS
from standfast.admin import schedules
from standfast.admin.executor import Admin, AnswerCache
from standfast.admin.overview import COUNTED, FEW, MANY, Level, Sight, judge
from standfast.admin.schedules import ScheduleRow
from standfast.model.incidents import Incident, Trouble
from standfast.model.phrases import in_english
from standfast.schedules.fires import create
from standfast.schedules.rules import Every
from standfast.schedules.schedule import Template
from standfast.stores.values import QueueAge, QueueAges, Worker, WorkerInfo

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)


def worker(beat_age=1.0, queues=None):
    info = WorkerInfo("w1", "s1", "web-01", 1, timedelta(seconds=15), queues, 4)
    return Worker(info, NOW, timedelta(seconds=beat_age), False, 0, 0)


def due(name="mail", seconds=0.2, paused_at=None):
    return QueueAge(name, NOW - timedelta(seconds=seconds), paused_at)


def sight(*queues, workers=None, **more):
    workers = (worker(),) if workers is None else workers
    return Sight(workers=workers, ages=QueueAges(NOW, queues), **more)


def schedule(**more):
    fields = dict.fromkeys(("task", "queue", "next_at", "zone", "last", "paused_at", "paused_why", "app"))
    said = {"name": "nightly", "state": "active", "words": "", "failing": False, **fields, **more}
    return ScheduleRow(**said)


def incident(age=timedelta(hours=1), trouble=Trouble.CRASH):
    return Incident(id="i", trouble=trouble, summary="died", at=NOW - age, last_at=NOW - age)


def found(judged):
    return [(each.code, each.severity) for each in judged.findings]


def test_all_well_says_who_works_and_what_waits():
    """In one sentence."""
    judged = judge(sight(due(seconds=0.2), workers=(worker(), worker(), worker())))
    assert (judged.level, judged.sentence) == (Level.WELL, "All well: 3 workers, oldest job 200 ms")
    assert judge(sight()).sentence == "All well: 1 worker, nothing waits"


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (sight(workers=()), [("no_worker", Level.TROUBLE)]),
        (sight(workers=(worker(60.0),)), [("no_worker", Level.TROUBLE)]),
        (sight(workers=(worker(), worker(60.0))), [("worker_lost", Level.ATTENTION)]),
        (sight(due(seconds=9)), []),
        (sight(due(seconds=11)), [("queue_late", Level.ATTENTION)]),
        (sight(due(seconds=61)), [("queue_late", Level.TROUBLE)]),
        (sight(due(seconds=1), workers=(worker(queues=("web",)),)), [("queue_unserved", Level.TROUBLE)]),
        (sight(due(seconds=900, paused_at=NOW)), [("queue_paused", Level.ATTENTION)]),
        (sight(died=1), [("died", Level.ATTENTION)]),
        (sight(died=100), [("died", Level.TROUBLE)]),
        (sight(blocked=2), [("task_unknown", Level.ATTENTION)]),
        (sight(schedules=[schedule(failing=True)]), [("schedule_failing", Level.ATTENTION)]),
        (sight(schedules=[schedule(problem="no zone")]), [("schedule_unreadable", Level.ATTENTION)]),
        (sight(incidents=[incident()]), [("incidents", Level.ATTENTION)]),
        (sight(incidents=[incident(timedelta(hours=25))]), []),
        (sight(incidents=[incident(trouble=Trouble.SNAPSHOT)]), []),
        (sight(took=0.9), []),
        (sight(took=1.1), [("store_slow", Level.ATTENTION)]),
    ],
)
def test_each_finding_has_a_code_and_a_severity(seen, expected):
    """And what is just below a limit is not found."""
    judged = judge(seen)
    assert found(judged) == expected
    assert all(each.sentence and each.href.startswith("/") for each in judged.findings)


def test_the_worst_comes_first_and_is_the_level():
    """However it was found."""
    judged = judge(sight(due("late", 30), due("later", 90), died=1))
    assert [code for code, _ in found(judged)] == ["queue_late", "queue_late", "died"]
    assert (judged.level, judged.findings[0].params["queue"]) == (Level.TROUBLE, "later")
    assert judged.sentence.startswith("Trouble: queue 'later' is behind")


def test_the_overview_is_made_of_what_is_there(stage):
    """Workers, counts, failures, incidents; the verdict changes when a queue is paused."""
    stage.register()
    dead = stage.dead()
    waiting = stage.enqueue(queue="web")
    seen = stage.read("overview.show")
    assert (seen.workers_live, seen.workers_total) == (1, 1)
    assert (seen.counts["dead"], seen.counts["ready"]) == (1, 1)
    assert [row.id for row in seen.failures] == [dead]
    assert [each.code for each in seen.verdict.findings] == ["died"]
    stage.act("queues.pause", name="web")
    assert [each.code for each in stage.read("overview.show").verdict.findings] == ["queue_paused", "died"]
    stage.act("queues.resume", name="web")
    stage.clock.advance(3601)
    stage.register()
    seen = stage.read("overview.show")
    assert (seen.failures, seen.oldest_due_age) == ((), 3601.0)
    assert stage.read("jobs.show", id=waiting).state == "ready"
    assert msgspec.json.encode(seen, enc_hook=in_english)


def test_more_is_said_of_the_dead_only_where_there_are_more(stage):
    stage.register()
    for _ in range(COUNTED):
        stage.dead()
    [found] = stage.read("overview.show").verdict.findings
    assert str(found.sentence) == f"{COUNTED} jobs died in the last hour"
    stage.dead()
    [found] = stage.read("overview.show").verdict.findings
    assert str(found.sentence) == f"more than {COUNTED} jobs died in the last hour"
    assert found.params == {"count": COUNTED, "more": "more than "}


def test_the_overview_lists_the_queues_that_matter(stage):
    """Those that are paused or have most jobs, by name, with what waits and for how long."""
    for number in range(MANY + 2):
        stage.enqueue(queue=f"q{number:02}")
    stage.clock.advance(60)
    stage.act("queues.pause", name="zoo")
    stage.enqueue(queue="q11")
    queues = {each.name: each for each in stage.read("overview.show").queues}
    assert list(queues) == [*(f"q{number:02}" for number in range(MANY - 2)), "q11", "zoo"]
    assert (queues["q11"].ready, queues["q11"].oldest_age, queues["q11"].paused_at) == (2, 60.0, None)
    assert (queues["zoo"].ready, queues["zoo"].oldest_age) == (0, None)
    assert queues["zoo"].paused_at is not None


def test_what_fires_next_is_never_past(stage):
    """Also where the schedules were read some seconds ago: that is done more seldom than all else."""
    ticks = [0.0]
    stage.office = Admin(stage, shared=AnswerCache(fresh=1.0, clock=lambda: ticks[0]))
    for name, seconds in (("often", 2), ("seldom", 3600)):
        stage.do(create(stage.verbs, name, Every(seconds), Template("send", ARGS), timedelta()))
    first = stage.read("overview.show").schedules
    stage.clock.advance(9)
    ticks[0] = 9.0
    often, seldom = stage.read("overview.show").schedules
    assert (often.name, seldom) == ("often", first[1])
    assert timedelta() < often.next_at - stage.clock.now() <= timedelta(seconds=2)


def test_many_queues_and_many_workers_are_judged_in_a_moment():
    """Workers are looked at once, and not for each queue anew."""
    queues = [due(f"q{number}", seconds=0) for number in range(5000)]
    workers = [worker(queues=(f"q{number}",)) for number in range(2000)]
    seen = sight(*queues, workers=tuple(workers))
    begun = time.process_time()
    judged = judge(seen)
    assert time.process_time() - begun < 0.5
    assert len(judged.findings) == 3000


def test_of_many_schedules_only_the_next_are_computed(stage, monkeypatch):
    """By when each is due at the earliest; those that fire next are still found."""
    for number in range(60):
        stage.do(create(stage.verbs, f"s{number}", Every(3600 - number), Template("send", ARGS), timedelta()))
    next_fire, asked = schedules.next_fire, []

    def noting(schedule, now):
        asked.append(schedule.name)
        return next_fire(schedule, now)

    monkeypatch.setattr(schedules, "next_fire", noting)
    seen = stage.read("overview.show").schedules
    assert [row.name for row in seen] == [f"s{59 - number}" for number in range(FEW)]
    assert len(set(asked)) <= FEW + 1
