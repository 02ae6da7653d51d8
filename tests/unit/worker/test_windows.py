"""Workers and windows in virtual time: no start inside, running jobs are asked before, late work goes on after."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from stage import SETTINGS, Stage, play, working

from simulator.world import EPOCH
from standfast import Context, Standfast
from standfast.events import WindowBegan, WindowEnded, WindowNear
from standfast.model.outcomes import Interrupted
from standfast.model.states import FINAL, Move, State
from standfast.schedules.windows import Window
from standfast.worker.options import ServedQueues
from standfast.worker.windows import GUARD

ASKED, BEGIN, END = 15.0, 20.0, 40.0
WINDOW = Window("00:00:20", "00:00:40", notice=5, reason="recycle")
MANY = replace(SETTINGS, concurrency=50, safety_poll=1000.0)
AWAY = (BEGIN - GUARD.total_seconds(), END)


class Diary:
    """An app whose handlers write down when they start and when they are first asked to finish."""

    def __init__(self, *, on_queue: bool, **options: Any) -> None:
        self.app = Standfast("memory://")
        if on_queue:
            self.app.queue("mail", window=WINDOW)
        else:
            options["window"] = WINDOW
        self.starts: dict[str, list[float]] = {}
        self.asked: dict[str, float] = {}
        self.stage: Stage

        @self.app.task(queue="mail", **options)
        async def work(ctx: Context, seconds: float = 0.0, heed: str = "no") -> str:
            self.starts.setdefault(ctx.job_id, []).append(self.stage.clock.boot())
            ends_at = self.stage.clock.boot() + seconds
            while self.stage.clock.boot() < ends_at:
                await asyncio.sleep(0.125)
                if ctx.cancelled:
                    self.asked.setdefault(ctx.job_id, self.stage.clock.boot())
                    if heed == "return":
                        return "early"
                    if heed == "interrupt":
                        ctx.raise_if_cancelled()
            return "whole"

        self.work = work

    def opened(self, settings: Any = MANY, **options: Any) -> Stage:
        self.stage = Stage(self.app, settings, hours=self.app.windows, **options)
        return self.stage


def kinds() -> Any:
    return pytest.mark.parametrize("on_queue", [True, False], ids=["queue", "task"])


async def until(stage: Stage, boot: float) -> None:
    await asyncio.sleep(boot - stage.clock.boot())


@kinds()
def test_nothing_starts_inside_and_all_of_it_right_after(*, on_queue: bool) -> None:
    """What is due outside the window starts at its time, what is due inside it at its end; nothing is charged."""

    async def scenario() -> None:
        diary = Diary(on_queue=on_queue)
        stage = diary.opened()
        due = [number / 4 for number in range(240)]
        handles = [diary.work.options(delay=seconds).enqueue() for seconds in due]
        async with working(stage):
            await until(stage, 70)
        for seconds, handle in zip(due, handles, strict=True):
            [start] = diary.starts[handle.id]
            expected = END if AWAY[0] <= seconds < AWAY[1] else seconds
            assert start == pytest.approx(expected, abs=0.01), seconds
            job = stage.job(handle)
            assert (job.state, job.attempt, job.crashes) == (State.COMPLETED, 0, 0)
            assert job.fence <= 2, "it was given back, or put off, more than once"
            if on_queue:
                assert job.run_at == EPOCH + timedelta(seconds=seconds), "it lost its place"

    play(scenario)


@kinds()
def test_other_queues_and_tasks_go_on(*, on_queue: bool) -> None:
    """A window closes what it was declared for, and nothing else."""

    async def scenario() -> None:
        diary = Diary(on_queue=on_queue)
        free: list[float] = []

        @diary.app.task(queue="other" if on_queue else "mail")
        async def other() -> None:
            free.append(diary.stage.clock.boot())

        stage = diary.opened()
        for seconds in range(18, 43):
            other.options(delay=seconds).enqueue()
        async with working(stage):
            await until(stage, 50)
        assert free == pytest.approx([float(seconds) for seconds in range(18, 43)], abs=0.01)

    play(scenario)


@kinds()
def test_a_running_job_is_asked_and_goes_on_after_the_window(*, on_queue: bool) -> None:
    """It is told at the notice; if it ends by that, it waits until the window is over, uncharged."""

    async def scenario() -> None:
        diary = Diary(on_queue=on_queue)
        stage = diary.opened()
        handle = diary.work.enqueue(seconds=30, heed="interrupt")
        async with working(stage):
            await until(stage, 19)
            waits = stage.job(handle)
            await stage.until(lambda: len(diary.starts[handle.id]) == 2)
            assert diary.asked[handle.id] == pytest.approx(ASKED, abs=0.2)
            assert diary.starts[handle.id][1] == pytest.approx(END, abs=0.01)
            await until(stage, 80)
        assert (waits.state, waits.attempt) == (State.SCHEDULED, 0)
        assert waits.run_at == pytest.approx(EPOCH + timedelta(seconds=END), abs=timedelta(seconds=0.01))
        assert [attempt.how for attempt in stage.history(handle)] == [Move.SNOOZE, Move.COMPLETE]
        assert stage.job(handle).attempt == 0

    play(scenario)


@kinds()
def test_a_handler_may_return_or_go_on(*, on_queue: bool) -> None:
    """To be asked is not to be stopped: what returns is complete, and who ignores it runs on into the window."""

    async def scenario() -> None:
        diary = Diary(on_queue=on_queue)
        stage = diary.opened()
        returns = diary.work.enqueue(seconds=30, heed="return")
        ignores = diary.work.enqueue(seconds=30)
        async with working(stage):
            await until(stage, 35)
            assert stage.app.handle(returns.id).result(timeout=0) == "early"
            assert stage.app.handle(ignores.id).result(timeout=0) == "whole"
        assert diary.asked[ignores.id] == pytest.approx(ASKED, abs=0.2)
        assert len(diary.starts[ignores.id]) == 1

    play(scenario)


@kinds()
def test_what_starts_after_the_notice_is_asked_within_a_second(*, on_queue: bool) -> None:
    """Until the window begins jobs start; short ones are through before anybody asks."""

    async def scenario() -> None:
        diary = Diary(on_queue=on_queue)
        stage = diary.opened()
        long = diary.work.options(delay=17.5).enqueue(seconds=30, heed="interrupt")
        short = [diary.work.options(delay=15 + number / 4).enqueue(heed="interrupt") for number in range(19)]
        async with working(stage):
            await until(stage, 39)
            assert all(stage.job(handle).state is State.COMPLETED for handle in short)
            assert 17.5 < diary.asked[long.id] <= 18.75
            await until(stage, 80)
        assert [len(diary.starts[handle.id]) for handle in (long, *short)] == [2] + [1] * 19

    play(scenario)


def test_who_must_not_start_twice_is_dead_as_at_a_stop() -> None:
    """A job with one attempt that ends because it was asked to does not start again; who ignores it completes."""

    async def scenario() -> None:
        diary = Diary(on_queue=True, max_attempts=1)
        stage = diary.opened()
        heeds, ignores = diary.work.enqueue(seconds=18, heed="interrupt"), diary.work.enqueue(seconds=18)
        async with working(stage):
            await until(stage, 60)
        assert [stage.job(handle).state for handle in (heeds, ignores)] == [State.DEAD, State.COMPLETED]

    play(scenario)


def test_a_cancellation_counts_even_after_it_was_asked_to_finish() -> None:
    """A window asks; a person who cancels decides."""

    async def scenario() -> None:
        diary = Diary(on_queue=True)
        stage = diary.opened()
        handle = diary.work.enqueue(seconds=60)
        async with working(stage):
            await until(stage, 17)
            handle.cancel()
            stage.pass_on()
            job = await stage.settled(handle)
        assert (job.state, job.reason) == (State.CANCELLED, "requested")

    play(scenario)


def test_a_stop_counts_even_after_it_was_asked_to_finish() -> None:
    """What a stopping worker interrupts goes back at once, for others to have after the window."""

    async def scenario() -> None:
        diary = Diary(on_queue=True)
        stage = diary.opened()
        handle = diary.work.enqueue(seconds=60)
        async with working(stage):
            await until(stage, 17)
        assert stage.job(handle).state is State.READY
        assert stage.job(handle).attempt == 0

    play(scenario)


@kinds()
def test_a_start_that_takes_its_time_is_not_let_in_late(*, on_queue: bool) -> None:
    """A job with one attempt is marked before it starts; if a window begins meanwhile, it waits, unharmed."""

    async def scenario() -> None:
        diary = Diary(on_queue=on_queue, max_attempts=1)
        stage = diary.opened()
        arun = stage.backend.arun

        async def slowly(verb: Any) -> Any:
            if verb.name == "start" and stage.clock.boot() < BEGIN:
                await asyncio.sleep(2)
            return await arun(verb)

        stage.backend.arun = slowly  # type: ignore[method-assign]
        handle = diary.work.options(delay=19).enqueue()
        async with working(stage):
            await until(stage, 60)
        assert diary.starts[handle.id] == [pytest.approx(END, abs=0.01)]
        assert stage.job(handle).state is State.COMPLETED

    play(scenario)


def test_who_serves_closed_queues_only_asks_for_nothing_until_one_opens() -> None:
    """It sleeps, and wakes by itself at the end of the window, without a bell or a poll."""

    async def scenario() -> None:
        diary = Diary(on_queue=True)
        stage = diary.opened(served=ServedQueues(("mail",)))
        asked: list[float] = []
        claim = stage.backend.verbs.claim

        def counted(request: Any) -> Any:
            asked.append(stage.clock.boot())
            return claim(request)

        stage.backend.verbs.claim = counted  # type: ignore[method-assign]
        async with working(stage):
            await until(stage, 25)
            handle = diary.work.enqueue()
            await until(stage, 45)
        assert [boot for boot in asked if AWAY[0] <= boot < AWAY[1]] == []
        assert diary.starts[handle.id] == [pytest.approx(END, abs=0.01)]

    play(scenario)


def test_a_crowd_of_a_closed_task_is_put_off_once_each() -> None:
    """More than there are places for: each is claimed, put off, and claimed again when the window is over."""

    async def scenario() -> None:
        diary = Diary(on_queue=False)
        stage = diary.opened(SETTINGS)
        async with working(stage):
            await until(stage, 25)
            handles = diary.work.enqueue_many([{}] * 500)
            await until(stage, 39)
            assert {stage.job(handle).state for handle in handles} <= {State.SCHEDULED, State.HELD}
            await until(stage, 60)
        assert all(stage.job(handle).state is State.COMPLETED for handle in handles)
        puts_off = [sum(each.how == Move.SNOOZE for each in stage.history(handle)) for handle in handles]
        assert set(puts_off) == {1}

    play(scenario)


def test_what_happens_is_told() -> None:
    """That a window is near, that it has begun and that it is over, and how many jobs of this worker still run."""

    async def scenario() -> None:
        diary = Diary(on_queue=True)
        stage = diary.opened()
        diary.work.enqueue(seconds=30)
        diary.work.enqueue(seconds=30, heed="return")
        async with working(stage):
            await until(stage, 50)
        told = [event for event in stage.told if isinstance(event, WindowNear | WindowBegan | WindowEnded)]
        times = {"begins_at": EPOCH + timedelta(seconds=BEGIN), "ends_at": EPOCH + timedelta(seconds=END)}
        assert told == [
            WindowNear("queue", "mail", **times, reason="recycle", running=2),
            WindowBegan("queue", "mail", **times, reason="recycle", running=1),
            WindowEnded("queue", "mail"),
        ]

    play(scenario)


def test_a_job_in_a_thread_is_asked_too() -> None:
    """A plain function sees it, and ends by `raise_if_cancelled`; in real time, as threads have no other."""

    async def scenario() -> None:
        app = Standfast("memory://")
        starts: list[int] = []
        never = threading.Event()
        now = datetime.now(UTC)
        begin = now + timedelta(seconds=3)
        window = Window(f"{begin:%H:%M:%S}", f"{begin + timedelta(seconds=3600):%H:%M:%S}", notice=2)

        @app.task(window=window)
        def work(ctx: Context) -> None:
            starts.append(ctx.fence)
            while not never.wait(0.01):
                try:
                    ctx.raise_if_cancelled()
                except Interrupted:
                    starts.append(-ctx.fence)
                    raise

        stage = Stage(app, hours=app.windows)
        stage.clock.offset = now - EPOCH - timedelta(seconds=stage.clock.boot())
        handle = work.enqueue()
        async with working(stage):
            await stage.until(lambda: -1 in starts)
            await stage.until(lambda: stage.job(handle).state is State.SCHEDULED)
        assert stage.job(handle).state not in FINAL
        assert stage.job(handle).attempt == 0

    play(scenario, virtual=False)
