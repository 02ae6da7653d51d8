"""A job can be cancelled wherever it is, by handle, by verb and by command; too late is said to be too late."""

import asyncio
import os
import signal

import pytest
from shopfloor import PROVE, Shop, eventually

from standfast import JobNotFoundError
from standfast.stores.contract import cancel_job

WAYS = ["handle", "async handle", "verb", "command"]


def cancel(shop, handle, way):
    """Cancel in one of the ways and return the answer."""
    match way:
        case "handle":
            return handle.cancel()
        case "async handle":
            return asyncio.run(handle.acancel())
        case "verb":
            return shop.app.call(cancel_job(shop.app.verbs, handle.id))
        case _:
            [answer] = shop.asked("jobs", "cancel", handle.id)
            return answer["answer"]


def test_cancel_waiting(tmp_path):
    """A job that nobody has claimed is cancelled at once and never runs; a second wish comes too late."""
    with Shop(tmp_path) as shop:
        handles = [shop.tasks.pack.options(delay=3600 * (number % 2)).enqueue(order=number) for number in range(8)]
        assert [cancel(shop, handle, way) for handle, way in zip(handles, WAYS * 2, strict=True)] == [
            "cancelled"
        ] * 8
        assert {handle.cancel() for handle in handles} == {"too_late"}
        shop.drain()
        assert {(job.state, job.reason, job.fence) for job in map(shop.job, handles)} == {
            ("cancelled", "requested", 0)
        }
        assert shop.ledger() == []
        assert "someone asked for it" in shop.why(handles[0])


def test_cancel_held(tmp_path):
    """A job claimed ahead of its time and cancelled well before it never starts; its neighbours start on time."""
    with Shop(tmp_path) as shop:
        shop.worker()
        unwanted = [shop.tasks.pack.options(delay=9).enqueue(order=number) for number in range(4)]
        wanted = [shop.tasks.pack.options(delay=9).enqueue(order=number) for number in range(4)]
        for handle in unwanted + wanted:
            shop.become(handle, "held")

        assert {cancel(shop, handle, way) for handle, way in zip(unwanted, WAYS, strict=True)} == {"requested"}

        for handle in unwanted:
            job = shop.become(handle, "cancelled")
            assert (job.reason, job.attempt) == ("requested", 0)
            assert [attempt.how for attempt in shop.history(handle)] == ["cancel"]
        assert [handle.result(timeout=30) for handle in wanted] == [0, 1, 2, 3]
        assert {line["job"] for line in shop.ledger()} == {handle.id for handle in wanted}


@pytest.mark.parametrize("rounds", [20 if PROVE else 1])
def test_cancel_well_before_the_start_always_wins(tmp_path, rounds):
    """A worker that cannot hear of a cancellation starts nothing, even with its supervisor stopped."""
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


def test_cancel_running(tmp_path):
    """A running coroutine is cancelled, a thread is told, one that does not listen runs to its end."""
    with Shop(tmp_path) as shop:
        shop.worker()
        coroutines = [shop.tasks.guard.enqueue(until="never") for _ in WAYS]
        threads = [shop.tasks.guard_by_hand.enqueue(until="never") for _ in WAYS]
        deaf = [shop.tasks.guard_deaf.enqueue(until="end") for _ in WAYS]
        for handle in coroutines + threads + deaf:
            shop.become(handle, "running")

        for handles in (coroutines, threads, deaf):
            assert {cancel(shop, handle, way) for handle, way in zip(handles, WAYS, strict=True)} == {"requested"}

        for handles, heard in ((coroutines, "cancelled"), (threads, "told")):
            for handle in handles:
                job = shop.become(handle, "cancelled")
                assert (job.reason, job.attempt) == ("requested", 0)
                assert [attempt.how for attempt in shop.history(handle)] == ["cancel"]
                assert [line["what"] for line in shop.ledger(handle)] == ["began", heard]
        assert "cancellation was requested" in shop.why(deaf[0])
        shop.put("end")
        assert [handle.result(timeout=30) for handle in deaf] == ["end"] * 4
        assert shop.tasks.pack.enqueue(order=1).result(timeout=30) == 1


def test_cancel_finished(tmp_path):
    """A finished job cannot be cancelled: the API says too late, the command says what it is and exits with 1."""
    with Shop(tmp_path) as shop:
        handle = shop.tasks.pack.enqueue(order=1)
        dead = shop.tasks.say.enqueue(how="fail")
        shop.drain()
        assert handle.cancel() == "too_late"
        assert asyncio.run(handle.acancel()) == "too_late"
        refused = shop.standfast("jobs", "cancel", handle.id)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert refused.stderr == f"standfast: job {handle.id} is completed: too late to cancel it\n"
        assert dead.cancel() == "too_late"
        assert handle.result(timeout=0) == 1
        unknown = shop.standfast("jobs", "cancel", "01a1dd49-0000-7000-8000-000000000000")
        assert unknown.returncode == 1
        assert unknown.stderr.count("\n") == 1
        with pytest.raises(JobNotFoundError):
            shop.app.call(cancel_job(shop.app.verbs, "nobody"))


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
