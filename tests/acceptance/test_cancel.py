"""A job can be cancelled wherever it is, by handle, by verb and by command; too late is said to be too late."""

import asyncio
import os
import signal

import pytest
from shopfloor import PROVE, Shop, eventually

from holdfast import JobNotFoundError

WAYS = ["handle", "async handle", "verb", "command"]


def cancel(shop, handle, way):
    """Cancel in one of the ways and return the answer."""
    match way:
        case "handle":
            return handle.cancel()
        case "async handle":
            return asyncio.run(handle.acancel())
        case "verb":
            return shop.app.call(shop.app.verbs.cancel(handle.id))
        case _:
            [answer] = shop.asked("jobs", "cancel", handle.id)
            return answer["answer"]


def test_cancel_waiting(tmp_path):
    """A job that nobody has claimed is cancelled at once and never runs; a second wish comes too late."""
    with Shop(tmp_path) as shop:
        handles = [shop.tasks.pack.options(delay=3600 * (number % 2)).enqueue(order=number) for number in range(8)]
        assert [cancel(shop, handle, way) for handle, way in zip(handles, WAYS * 2, strict=True)] == ["cancelled"] * 8
        assert {handle.cancel() for handle in handles} == {"too_late"}
        shop.drain()
        assert {(job.state, job.reason, job.fence) for job in map(shop.job, handles)} == {("cancelled", "requested", 0)}
        assert shop.ledger() == []
        assert "someone asked for it" in shop.why(handles[0])


@pytest.mark.parametrize("way", WAYS)
def test_cancel_held(tmp_path, way):
    """A job claimed ahead of its time and cancelled well before it never starts; its neighbours start on time."""
    with Shop(tmp_path) as shop:
        handles = [shop.tasks.pack.options(delay=4).enqueue(order=number) for number in range(4)]
        shop.worker()
        for handle in handles:
            shop.become(handle, "held")

        assert {cancel(shop, handle, way) for handle in handles[:2]} == {"requested"}

        for handle in handles[:2]:
            job = shop.become(handle, "cancelled")
            assert (job.reason, job.attempt) == ("requested", 0)
            assert [attempt.how for attempt in shop.history(handle)] == ["cancel"]
        assert [handle.result(timeout=30) for handle in handles[2:]] == [2, 3]
        assert {line["job"] for line in shop.ledger()} == {handle.id for handle in handles[2:]}


@pytest.mark.parametrize("rounds", [20 if PROVE else 1])
def test_cancel_well_before_the_start_always_wins(tmp_path, rounds):
    """A worker that cannot hear of a cancellation starts nothing: not even with its supervisor stopped past the time."""
    with Shop(tmp_path) as shop:
        worker = shop.worker()
        for _ in range(rounds):
            handle = shop.tasks.pack.options(delay=2.5).enqueue(order=1)
            shop.become(handle, "held")
            os.kill(worker.pid, signal.SIGSTOP)
            try:
                assert handle.cancel() == "requested"
                due = handle.job().run_at.timestamp()
                eventually(lambda due=due: shop.app.clock.now().timestamp() > due + 0.5, "its time has passed")
                assert handle.status() == "held"
            finally:
                os.kill(worker.pid, signal.SIGCONT)
            shop.become(handle, "cancelled")
            assert shop.ledger(handle) == []


@pytest.mark.parametrize("way", WAYS)
def test_cancel_running(tmp_path, way):
    """A running coroutine is cancelled, a thread is told, one that does not listen runs to its end and completes."""
    with Shop(tmp_path) as shop:
        shop.worker()
        tasks = (shop.tasks.guard, shop.tasks.guard_by_hand, shop.tasks.guard_deaf)
        handles = [task.enqueue(until="never" if task is not shop.tasks.guard_deaf else "end") for task in tasks]
        for handle in handles:
            shop.become(handle, "running")

        assert {cancel(shop, handle, way) for handle in handles} == {"requested"}

        for handle in handles[:2]:
            job = shop.become(handle, "cancelled")
            assert (job.reason, job.attempt) == ("requested", 0)
            assert [attempt.how for attempt in shop.history(handle)] == ["cancel"]
        assert [line["what"] for line in shop.ledger(handles[0])] == ["began", "cancelled"]
        assert [line["what"] for line in shop.ledger(handles[1])] == ["began", "told"]
        assert "cancellation was requested" in shop.why(handles[2])
        shop.put("end")
        assert handles[2].result(timeout=30) == "end"
        assert shop.tasks.pack.enqueue(order=1).result(timeout=30) == 1


def test_cancel_finished(tmp_path):
    """A finished job cannot be cancelled: the API says too late, the command says what it is and exits with 1."""
    with Shop(tmp_path) as shop:
        handle = shop.tasks.pack.enqueue(order=1)
        dead = shop.tasks.say.enqueue(how="fail")
        shop.drain()
        assert handle.cancel() == "too_late"
        assert asyncio.run(handle.acancel()) == "too_late"
        refused = shop.holdfast("jobs", "cancel", handle.id)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert refused.stderr == f"holdfast: job {handle.id} is completed: too late to cancel it\n"
        assert dead.cancel() == "too_late"
        assert handle.result(timeout=0) == 1
        unknown = shop.holdfast("jobs", "cancel", "01a1dd49-0000-7000-8000-000000000000")
        assert unknown.returncode == 1
        assert unknown.stderr.count("\n") == 1
        with pytest.raises(JobNotFoundError):
            shop.app.call(shop.app.verbs.cancel("nobody"))


def test_cancel_while_it_fails(tmp_path):
    """A job asked to cancel whose handler then fails is cancelled, not tried again."""
    with Shop(tmp_path) as shop:
        handle = shop.tasks.guard_then_fail.enqueue(until="end")
        shop.worker()
        shop.become(handle, "running")
        assert handle.cancel() == "requested"
        shop.put("end")
        job = shop.become(handle, "cancelled")
        assert (job.reason, job.attempt) == ("requested", 0)
        assert len(shop.ledger(handle)) == 1
