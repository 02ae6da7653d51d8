"""Lists of jobs: every filter, pages that meet each job once, bounds that are told."""

import asyncio
from datetime import UTC, datetime, timedelta
from threading import Event, Lock, current_thread

import pytest

from dashboard_stage import SECRET
from standfast.admin import job_search, jobs
from standfast.admin.executor import SEARCHES
from standfast.admin.operation import WrongRequestError
from standfast.admin.registry import BY_NAME
from standfast.model.ids import first_id_at
from standfast.model.states import Move, State


def ids(seen):
    return [row.id for row in seen.rows]


def test_filters_narrow_the_list(stage):
    """Each filter selects those it names, and all of them together what fits all."""
    dead = stage.dead(queue="mail", tags=("vip", "eu"), key="k1")
    done = stage.completed(task="resize", queue="images")
    runs = stage.running(task="crawl", queue="web")
    for asked, expected in [
        ({}, [runs, done, dead]),
        ({"state": (State.DEAD,)}, [dead]),
        ({"state": (State.DEAD, State.RUNNING)}, [runs, dead]),
        ({"task": "resize"}, [done]),
        ({"queue": "web"}, [runs]),
        ({"tag": ("vip", "eu")}, [dead]),
        ({"tag": ("vip", "us")}, []),
        ({"key": "k1"}, [dead]),
        ({"error": "try AGAIN"}, [dead]),
        ({"worker": "a1b2c3d4e5f60718"}, [runs]),
        ({"state": (State.DEAD,), "queue": "web"}, []),
        ({"task": "", "queue": "", "key": ""}, [runs, done, dead]),
    ]:
        assert ids(stage.read("jobs.list", **asked)) == expected, asked


def test_pages_meet_each_job_once(stage):
    """`next` leads from page to page, and is null on the last."""
    made = [stage.enqueue() for _ in range(7)]
    met, before = [], None
    while True:
        seen = stage.read("jobs.list", limit=3, before=before)
        met += ids(seen)
        before = seen.next
        if before is None:
            break
    assert met == made[::-1]


def test_a_span_of_time_is_about_when_jobs_were_made(stage):
    """since and until take spans and dates; what has no zone is refused in words."""
    job = stage.enqueue()
    stage.clock.advance(3600)
    assert ids(stage.read("jobs.list", since="2h")) == [job]
    assert ids(stage.read("jobs.list", since="30m")) == []
    assert ids(stage.read("jobs.list", until="30m")) == [job]
    assert ids(stage.read("jobs.list", until="2h")) == []
    early = (stage.clock.now() - timedelta(days=1)).isoformat()
    assert ids(stage.read("jobs.list", since=early)) == [job]
    assert ids(stage.read("jobs.list", since=early[:10])) == [job]
    with pytest.raises(WrongRequestError, match="has no time zone"):
        stage.read("jobs.list", since="2026-03-01T09:00")
    with pytest.raises(WrongRequestError, match="is no moment"):
        stage.read("jobs.list", until="yesterday; DROP TABLE jobs")


def test_text_is_looked_for_where_people_look(stage):
    """Task, id, key, tags, error and plain arguments are looked through; what is secret is not."""
    job = stage.dead(message="mailbox full", tags=("vip",), key="order-7", payload=SECRET)
    other = stage.enqueue(task="other", payload=b'{"v":1,"args":{"text":"Gr\\u00fc\\u00dfe"}}')
    for text in ("send_em", job[-8:], "ORDER-7", "vip", "mailbox", "ada@example", "to=ada"):
        assert ids(stage.read("jobs.list", text=text)) == [job], text
    assert ids(stage.read("jobs.list", text="grüße")) == [other]
    assert ids(stage.read("jobs.list", text="hunter2")) == []


def test_a_look_for_text_is_bounded_and_goes_on(stage, monkeypatch):
    """One page looks at the newest jobs of a stated span; `next` goes on where it ended."""
    monkeypatch.setattr(job_search, "SPAN", 4)
    monkeypatch.setattr(job_search, "_PAGE", 2)
    rare = stage.enqueue(task="rare")
    for _ in range(6):
        stage.enqueue()
    first = stage.read("jobs.list", text="rare")
    assert (ids(first), first.bounded) == ([], True)
    second = stage.read("jobs.list", text="rare", before=first.next)
    assert (ids(second), second.next) == ([rare], None)


def test_a_fingerprint_selects_dead_jobs_of_one_kind(stage):
    """All that failed alike, whatever the numbers in it."""
    first, second = stage.dead("user 7 is gone"), stage.dead("user 8 is gone")
    stage.dead("disk full")
    row = stage.read("jobs.list", state=(State.DEAD,), error="user 7").rows[0]
    assert ids(stage.read("jobs.list", fingerprint=row.fingerprint)) == [second, first]
    assert ids(stage.read("jobs.list", fingerprint=row.fingerprint, state=(State.COMPLETED,))) == []


def test_what_a_row_says_of_progress_and_errors(stage):
    """How far it is, and the first of what went wrong."""
    stage.dead("x" * 5000)
    runs = stage.running()
    running, dead = stage.read("jobs.list").rows
    assert (running.id, running.progress.share, running.progress.note) == (runs, 0.42, "the shoes")
    assert len(dead.error) == 500


def test_counting_knows_more_than_it_counts(stage, monkeypatch):
    """States and queues are counted by the store; anything else one by one, up to a bound."""
    for _ in range(5):
        stage.dead("user 1 is gone")
    stage.enqueue(queue="web")
    assert stage.read("jobs.count").count == 6
    assert stage.read("jobs.count", queue="mail", state=(State.DEAD,)).count == 5
    assert stage.read("jobs.count", action="discard").count == 5
    assert stage.read("jobs.count", action="cancel").count == 1
    assert stage.read("jobs.count", action="cancel", state=(State.DEAD,)).count == 0
    assert stage.read("jobs.count", action="retry", text="gone").count == 5
    monkeypatch.setattr("standfast.admin.jobs.MOST_COUNTED", 3)
    counted = stage.read("jobs.count", error="gone")
    assert (counted.count, counted.more) == (3, True)


def test_known_names_are_offered(stage):
    """Queues that there are, and tasks that were met."""
    stage.enqueue(task="resize", queue="images")
    seen = stage.read("jobs.list")
    assert (seen.tasks, seen.queues) == (("resize",), ("images",))


def test_dead_jobs_in_groups(stage):
    """Grouped by what went wrong, the largest first, with an example and when."""
    for number in range(3):
        stage.dead(f"user {number} is gone")
    stage.clock.advance(60)
    stage.dead("disk full", queue="images", task="resize")
    stage.end(stage.enqueue(task="silent"), Move.DIE)
    seen = stage.read("dead.groups")
    first = seen.groups[0]
    assert [group.count for group in seen.groups] == [3, 1, 1]
    assert (first.shape, first.tasks, first.queues) == (
        "SMTPError: user <number> is gone",
        ("send_email",),
        ("mail",),
    )
    assert (seen.looked_at, seen.total) == (5, 5)
    assert {group.fingerprint for group in seen.groups} >= {"none"}
    assert [group.count for group in stage.read("dead.groups", task="resize").groups] == [1]


def test_a_look_for_text_in_large_arguments_is_bounded_by_bytes(stage, monkeypatch):
    """After the first few jobs pages are as small as these were large; it ends early, and `next` goes on."""
    monkeypatch.setattr(job_search, "_FIRST", 2)
    monkeypatch.setattr(job_search, "PAGE_BYTES", 3_000)
    monkeypatch.setattr(job_search, "MOST_BYTES", 7_000)
    rare = stage.enqueue(task="rare")
    for _ in range(10):
        stage.enqueue(payload=b'{"v":1,"args":{"a":"%s"}}' % (b"x" * 1_000))
    search, limits = stage.backend.verbs.list_jobs, []

    def noting(which, span):
        limits.append(which.limit)
        return search(which, span)

    monkeypatch.setattr(stage.backend.verbs, "list_jobs", noting, raising=False)
    first = stage.read("jobs.list", text="rare")
    assert (ids(first), first.bounded, limits) == ([], True, [2, 2, 2, 2])
    second = stage.read("jobs.list", text="rare", before=first.next)
    assert (ids(second), second.next) == ([rare], None)
    limits.clear()
    assert stage.read("jobs.count", queue="mail", since="1h").count == 11
    assert set(limits[:5]) == {1, 2}


def test_only_some_look_for_text_at_once_and_the_loop_goes_on(stage, monkeypatch):
    """Arguments are looked through in threads, of few people at a time; the others wait for their turn."""
    stage.enqueue()
    now, most, threads, lock = 0, 0, set(), Lock()

    def slow(job, text):
        nonlocal now, most
        with lock:
            now, most = now + 1, max(most, now + 1)
        threads.add(current_thread())
        gate.wait(0.05)
        with lock:
            now -= 1
        return text in job.task

    gate = Event()
    monkeypatch.setattr(job_search, "_mentions", slow)
    operation = BY_NAME["jobs.list"]

    async def five():
        texts = [operation.asked(text=f"t{number}") for number in range(5)]
        await asyncio.gather(*(stage.desk().read(operation, asked) for asked in texts))

    stage.wait(five())
    assert most == SEARCHES
    assert current_thread() not in threads


def test_where_there_are_more_than_were_counted_all_are_meant(stage, monkeypatch):
    """Told "at least 2", somebody confirms all that match and were there: nobody confirms a hundred times."""
    monkeypatch.setattr(jobs, "MOST_COUNTED", 2)
    for _ in range(5):
        stage.dead()
    seen = stage.read("jobs.count", action="discard", error="451")
    assert (seen.count, seen.more) == (2, True)
    done = stage.act("jobs.bulk", action="discard", error="451", expected=2, confirm=seen.confirm)
    assert (done.done, done.more) == (5, False)
    assert stage.read("jobs.count", state=(State.DEAD,)).count == 0


def test_jobs_of_a_clock_that_is_ahead_are_dealt_with(stage):
    """Their ids are of a time to come. What comes after the count is still not meant."""
    old, ahead = stage.dead(), stage.dead(id=first_id_at(datetime.now(UTC) + timedelta(hours=2)))
    seen = stage.read("jobs.count", action="retry")
    stage.clock.advance(1)
    later = stage.dead()
    done = stage.act("jobs.bulk", action="retry", expected=seen.count, confirm=seen.confirm)
    assert (seen.count, done.done) == (2, 2)
    assert [stage.job(job).state for job in (old, ahead, later)] == [State.READY, State.READY, State.DEAD]
