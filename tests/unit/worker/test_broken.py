"""An attempt that breaks outside its handler fails like any other: it waits before the next try, and ends."""

import asyncio
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from stage import Stage, play, working

from standfast import Custom, Exponential, Standfast
from standfast.events import JobRetrying
from standfast.handle import JobHandle
from standfast.model.ids import new_job_id
from standfast.model.job import NewJob
from standfast.model.states import State
from standfast.worker.messages import Noticed, Unfit

if TYPE_CHECKING:
    from decimal import Decimal

ATTEMPTS = 3


def test_an_attempt_that_breaks_comes_back_after_the_default_backoff(caplog) -> None:
    """Not at once and over and over; after its last attempt it is dead, with the reason."""

    async def scenario() -> None:
        app = Standfast("memory://")

        @app.task
        async def work(amount: "Decimal") -> None:
            """Have an annotation that cannot be resolved where the worker is."""

        stage = Stage(app)
        job = NewJob(new_job_id(), "work", b'{"v":1,"args":{"amount":"1.5"}}', max_attempts=ATTEMPTS)
        stage.backend.run(stage.backend.verbs.enqueue([job]))
        handle = JobHandle(job.id, "work", app)
        async with working(stage):
            await stage.until(lambda: stage.job(handle).state is State.DEAD)
        assert "cannot be resolved" in (stage.job(handle).error or "")
        assert stage.job(handle).attempt == ATTEMPTS
        delays = [event.delay for event in stage.told if isinstance(event, JobRetrying)]
        assert delays[0] >= timedelta(seconds=Exponential().factor)
        assert delays[1] >= timedelta(seconds=Exponential().factor ** 2)
        assert stage.clock.boot() >= sum(delays, timedelta()).total_seconds()

    play(scenario)
    assert caplog.text.count("its attempt broke outside its handler") == ATTEMPTS


def test_a_job_that_cannot_be_read_is_dead_at_once_and_an_incident() -> None:
    """Others run; the supervisor is told which job it is and what is wrong with it, once for many."""

    async def scenario() -> None:
        app = Standfast("memory://")

        @app.task
        async def work() -> None: ...

        stage = Stage(app)
        damaged, sound = [work.options(start_within=60).enqueue() for _ in range(3)], work.enqueue()
        for handle in damaged:
            stage.backend.verbs._jobs[handle.id].start_by = "soon"  # type: ignore[assignment]
        async with working(stage):
            await stage.settled(sound)
            for handle in damaged:
                await stage.settled(handle)
            noticed = await stage.until(lambda: [told for told in stage._far._inbox if isinstance(told, Noticed)])
        assert stage.job(sound).state is State.COMPLETED
        for handle in damaged:
            assert (stage.job(handle).state, stage.job(handle).attempt) == (State.DEAD, 1)
            assert "cannot be read" in stage.why(handle)
        assert "cannot be read" in noticed[0].summary
        assert {job.job_id for told in noticed for job in told.jobs} <= {handle.id for handle in damaged}

    play(scenario)


class UnspeakableError(Exception):
    """An exception of which nothing can be asked, as a broken proxy or mock of one."""

    def __getattribute__(self, name: str) -> Any:
        raise KeyError(name)


def test_an_attempt_ends_whatever_breaks_it_outside_its_handler(caplog) -> None:
    """An attempt whose task was over was held for ever: its lease renewed, past its timeout, without a word."""

    async def scenario() -> None:
        app = Standfast("memory://")

        @app.task(max_attempts=2, backoff=Custom(cancelled))
        async def cancelled_in_its_backoff() -> None:
            raise ValueError

        @app.task(max_attempts=2)
        async def unspeakable() -> None:
            raise UnspeakableError

        stage = Stage(app)
        handles = [cancelled_in_its_backoff.enqueue(), unspeakable.enqueue()]
        async with working(stage):
            for handle in handles:
                assert (await stage.settled(handle)).state is State.DEAD
                assert stage.job(handle).attempt == 2

    def cancelled(failures: int) -> float:
        raise asyncio.CancelledError(failures)

    play(scenario)
    assert "its attempt broke outside its handler" in caplog.text


def test_a_worker_leaves_if_a_handler_cancels_the_attempt_of_a_function_in_a_thread() -> None:
    """`for task in asyncio.all_tasks(): task.cancel()` stops no thread: its job is given back when that is over."""
    begun, end = threading.Event(), threading.Event()

    async def scenario() -> None:
        app = Standfast("memory://")

        @app.task
        def plain() -> None:
            begun.set()
            end.wait()

        @app.task
        async def cancels() -> None:
            for task in asyncio.all_tasks():
                if "Worker._attempt" in repr(task) and task is not asyncio.current_task():
                    task.cancel()

        stage = Stage(app)
        held = plain.enqueue()
        async with working(stage):
            await stage.until(begun.is_set)
            cancels.enqueue()
            [unfit] = await stage.until(lambda: [each for each in stage.heard() if isinstance(each, Unfit)])
            assert "attempt" in unfit.reason
            assert stage.job(held).state is State.HELD  # nobody else runs it beside its thread
            end.set()

    try:
        play(scenario, virtual=False)
    finally:
        end.set()
