"""Queues can be paused and resumed, the more important job goes first, and no job starts before its time."""

import random
from datetime import UTC, datetime, timedelta

from shopfloor import PROVE, Shop, eventually

DELAYED = 300 if PROVE else 40


def test_pause_and_resume(tmp_path):
    """Nothing of a paused queue starts, `why` says so, other queues go on, and a resume lets it go on."""
    with Shop(tmp_path) as shop:
        shop.worker()
        assert shop.standfast("queues", "pause", "mail").returncode == 0
        waiting = [shop.tasks.pack.options(queue="mail").enqueue(order=number) for number in range(5)]
        others = [shop.tasks.pack.enqueue(order=number) for number in range(5)]
        assert [handle.result(timeout=30) for handle in others] == list(range(5))
        assert {(job.state, job.fence) for job in map(shop.job, waiting)} == {("ready", 0)}
        assert "queue 'mail' is paused" in shop.why(waiting[0])
        assert "standfast queues resume mail" in shop.why(waiting[0])
        [mail] = [queue for queue in shop.asked("queues", "list") if queue["name"] == "mail"]
        assert mail["paused_at"]
        assert shop.standfast("queues", "resume", "mail").returncode == 0
        assert [handle.result(timeout=30) for handle in waiting] == list(range(5))


def test_pause_gives_back_what_is_held(tmp_path):
    """What was claimed ahead of its time goes back when its queue is paused, and runs after the resume."""
    with Shop(tmp_path) as shop:
        shop.worker()
        handles = [shop.tasks.pack.options(queue="mail", delay=3).enqueue(order=number) for number in range(3)]
        for handle in handles:
            shop.become(handle, "held")
        running = shop.tasks.guard.options(queue="mail").enqueue(until="end")
        shop.become(running, "running")

        shop.app.call(shop.app.verbs.pause("mail"))

        for handle in handles:
            shop.become(handle, "scheduled")
        due = max(handle.job().run_at for handle in handles)
        eventually(lambda: shop.app.clock.now() > due + timedelta(seconds=0.5), "their time has passed")
        assert {(job.state, job.attempt) for job in map(shop.job, handles)} == {("ready", 0)}
        assert shop.ledger(what="packed") == []
        shop.put("end")
        assert running.result(timeout=30) == "end"
        shop.app.call(shop.app.verbs.resume("mail"))
        assert [handle.result(timeout=30) for handle in handles] == [0, 1, 2]
        assert [attempt.how for attempt in shop.history(handles[0])] == ["release", "complete"]


def test_priority_order(tmp_path):
    """With one place, jobs start by priority, then by their time, then in the order they came."""
    with Shop(tmp_path) as shop:
        source = random.Random(7)
        priorities = [source.choice([-5, 0, 0, 1, 9]) for _ in range(60)]
        handles = [shop.tasks.pack.options(priority=priority).enqueue(order=0) for priority in priorities]
        shop.drain("--concurrency", "1")
        expected = [handles[place].id for place in sorted(range(60), key=lambda place: -priorities[place])]
        assert [line["job"] for line in shop.ledger()] == expected


def test_queues_are_served_in_the_order_named(tmp_path):
    """`--queues … --strict` serves these queues only, the first before the others, and leaves the rest alone."""
    with Shop(tmp_path) as shop:
        queues = ["mail", "critical", "other"] * 10
        handles = [shop.tasks.pack.options(queue=queue).enqueue(order=0) for queue in queues]
        shop.drain("--concurrency", "1", "--queues", "critical,mail", "--strict")
        named = {handle.id: queue for handle, queue in zip(handles, queues, strict=True)}
        assert [named[line["job"]] for line in shop.ledger()] == ["critical"] * 10 + ["mail"] * 10
        assert shop.counts() == {"completed": 20, "ready": 10}


def test_delay_never_early(tmp_path):
    """`delay` and `at` are kept: no job starts before its time, whatever the order in which they were enqueued."""
    with Shop(tmp_path) as shop:
        shop.worker()
        source = random.Random(7)
        handles = []
        for number in range(DELAYED):
            seconds = source.uniform(0, 3)
            at = datetime.now(UTC) + timedelta(seconds=seconds)
            when = {"delay": seconds} if number % 2 else {"at": at}
            handle = (shop.tasks.pack if number % 3 else shop.tasks.weigh).options(**when).enqueue(order=number)
            if "at" in when:
                assert handle.job().run_at == at
            handles.append((handle, at))
        shop.settled([handle for handle, _ in handles])
        for handle, at in handles:
            [line] = shop.ledger(handle)
            job = handle.job()
            assert job.run_at >= at
            assert line["at"] >= job.run_at.timestamp()
            [attempt] = shop.history(handle)
            assert attempt.started_at >= job.run_at
