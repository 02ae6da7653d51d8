"""A worker whose jobs go through gates, in virtual time: never too many, nobody starves, and no storm of claims."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from stage import SETTINGS, Stage, play, working

from standfast import Standfast, Window
from standfast.model.states import Move, State
from standfast.schedules.adaptive import Adaptive
from standfast.stores.values import ClaimRequest, Turn, WorkerInfo
from standfast.worker.limits import Gates
from standfast.worker.messages import Renewed, Told

MANY = replace(SETTINGS, concurrency=10)
RARELY = replace(MANY, safety_poll=1000.0)


class Busy:
    """What runs at a time, by name, and the most that ever did."""

    def __init__(self) -> None:
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()

    @contextmanager
    def inside(self, *names: str) -> Iterator[None]:
        self.now.update(names)
        self.most |= self.now
        try:
            yield
        finally:
            self.now.subtract(names)


class Claims:
    """The claim calls of a stage, and how they ended."""

    def __init__(self, stage: Stage) -> None:
        self.requests: list[ClaimRequest] = []
        self._claim = stage.backend.verbs.claim
        stage.backend.verbs.claim = self._noted  # type: ignore[method-assign]

    def _noted(self, request: ClaimRequest) -> Any:
        self.requests.append(request)
        return self._claim(request)


def released(stage: Stage, handles: list[Any]) -> int:
    return sum(attempt.how == Move.RELEASE for handle in handles for attempt in stage.history(handle))


def app_with(busy: Busy, **options: Any) -> tuple[Standfast, Any, Any]:
    """Return an app with a limited task and a free one, both in one queue; each lasts as long as it is told."""
    app = Standfast("memory://")
    app.gate("disk", 3)

    @app.task(**options)
    async def limited(seconds: float) -> None:
        with busy.inside("limited", "disk"):
            await asyncio.sleep(seconds)

    @app.task
    async def free(seconds: float) -> None:
        with busy.inside("free"):
            await asyncio.sleep(seconds)

    return app, limited, free


@pytest.mark.parametrize(
    ("options", "most"), [({"concurrency": 2}, 2), ({"gate": "disk"}, 3), ({"gate": "disk", "concurrency": 2}, 2)]
)
def test_what_waits_behind_a_full_task_runs(options: dict[str, Any], most: int) -> None:
    """A backlog of slow jobs of a full task does not hold up those behind it, which start at once."""

    async def scenario() -> None:
        busy = Busy()
        app, limited, free = app_with(busy, **options)
        stage = Stage(app, RARELY, limits=app.limits)
        claims = Claims(stage)
        slow = limited.enqueue_many([{"seconds": 100.0}] * 50)
        async with working(stage):
            await stage.until(lambda: busy.now["limited"] == most)
            began = stage.clock.boot()
            for handle in free.enqueue_many([{"seconds": 0.1}] * 20):
                await stage.settled(handle)
            assert stage.clock.boot() - began < 1
            calls, gave_back = len(claims.requests), released(stage, slow)
            await asyncio.sleep(50)
            assert len(claims.requests) <= calls + 1, "it asks though nothing has changed"
            assert released(stage, slow) == gave_back <= MANY.concurrency
            assert sum(stage.job(handle).state is State.READY for handle in slow) == 50 - most
        assert busy.most["limited"] == most

    play(scenario)


@pytest.mark.parametrize("lasts", [0.001, 0.05, 2.0])
def test_a_full_task_goes_on_as_fast_as_it_may(lasts: float) -> None:
    """When one ends the next starts at once, without a poll; few claims for short ones, and few that go back."""

    async def scenario() -> None:
        busy = Busy()
        app, limited, _ = app_with(busy, concurrency=2)
        stage = Stage(app, RARELY, limits=app.limits)
        claims = Claims(stage)
        jobs = limited.enqueue_many([{"seconds": lasts}] * 200)
        async with working(stage):
            began = stage.clock.boot()
            for handle in jobs:
                await stage.settled(handle)
            assert stage.clock.boot() - began <= 1.05 * 100 * lasts + 0.2
            assert busy.most["limited"] == 2
            assert len(claims.requests) <= (40 if lasts < 0.01 else 2 * len(jobs))
            assert released(stage, jobs) <= 2 * MANY.concurrency

    play(scenario)


def test_a_full_queue_is_not_claimed_for() -> None:
    """Its jobs stay ready for others; a worker that serves nothing else asks for nothing."""

    async def scenario() -> None:
        busy = Busy()
        app = Standfast("memory://")
        app.queue("mail", concurrency=1)

        @app.task(queue="mail")
        async def send() -> None:
            with busy.inside("mail"):
                await asyncio.sleep(10)

        @app.task(queue="else")
        async def other() -> None:
            """Do nothing."""

        stage = Stage(app, RARELY, limits=app.limits)
        claims = Claims(stage)
        mails = send.enqueue_many([{}] * 5)
        async with working(stage):
            await stage.until(lambda: busy.now["mail"])
            await stage.settled(other.enqueue())
            assert claims.requests[-1].closed == ("mail",)
            assert Counter(stage.job(mail).state for mail in mails)[State.READY] == 4
            for mail in mails:
                await stage.settled(mail)
            assert busy.most["mail"] == 1

    play(scenario)


def test_a_peak_lowers_and_its_end_raises() -> None:
    """Inside running jobs go on and no more start than it allows; at its end others do at once, without a poll."""

    async def scenario() -> None:
        busy = Busy()
        app = Standfast("memory://")
        peak = {Window("00:01", "00:03"): 1}  # the world begins at midnight
        app.gate("reports", 4, peak=peak)

        @app.task(gate="reports")
        async def report() -> None:
            with busy.inside("reports"):
                await asyncio.sleep(50)

        stage = Stage(app, RARELY, limits=app.limits)
        async with working(stage):
            report.enqueue_many([{}] * 20)
            await stage.until(lambda: busy.now["reports"] == 4)
            await asyncio.sleep(55 - stage.clock.boot())
            assert busy.now["reports"] == 4  # the second four, until 100 s
            await asyncio.sleep(98 - stage.clock.boot())
            assert busy.now["reports"] == 4
            await asyncio.sleep(102 - stage.clock.boot())
            assert busy.now["reports"] == 1
            await asyncio.sleep(179.9 - stage.clock.boot())
            assert busy.now["reports"] == 1
            await asyncio.sleep(180.1 - stage.clock.boot())
            assert busy.now["reports"] == 4
            changes = [
                (event.limit, event.before) for event in stage.told if type(event).__name__ == "LimitChanged"
            ]
            assert changes == [(1, 4), (4, 1)]

    play(scenario)


def test_a_peak_of_the_whole_worker() -> None:
    """It counts whatever runs, and the place of each that ends above it is not given again."""

    async def scenario() -> None:
        busy = Busy()
        app, _, free = app_with(busy)
        app.peak({Window("00:01", "00:03"): 2})
        stage = Stage(app, RARELY, limits=app.limits)
        async with working(stage):
            free.enqueue_many([{"seconds": 20.0}] * 60)
            await asyncio.sleep(59)
            assert busy.now["free"] == 10
            await asyncio.sleep(20)
            assert busy.now["free"] == 2
            await asyncio.sleep(180.1 - stage.clock.boot())
            assert busy.now["free"] == 10

    play(scenario)


def test_an_adaptive_worker_gives_way_and_comes_back() -> None:
    """While its host is slow fewer run, down to the lowest and no lower; afterwards all run again."""

    async def scenario() -> None:
        busy = Busy()
        app, _, free = app_with(busy)
        loop = asyncio.get_running_loop()
        adaptive = Adaptive(lag=0.05, latency=0.2, lowest=2, clock=loop.time)
        app._limits.adapt(adaptive)
        stage = Stage(app, RARELY, limits=app.limits)
        slow = [False]

        async def host() -> None:
            while True:
                await asyncio.sleep(0.05)
                adaptive.observe_lag(0.3 if slow[0] else 0.001)
                adaptive.observe(0.02)

        ticking = asyncio.ensure_future(host())
        async with working(stage):
            free.enqueue_many([{"seconds": 4.0}] * 350)
            await asyncio.sleep(5)
            assert busy.now["free"] == 10
            slow[0] = True
            await asyncio.sleep(12)
            assert busy.now["free"] == 2
            slow[0] = False
            await asyncio.sleep(80)
            assert busy.now["free"] == 10
            limits = [event.limit for event in stage.told if type(event).__name__ == "LimitChanged"]
            assert limits[0] == 5
            assert (min(limits), limits[-1]) == (2, 10)
            assert sorted(limits[limits.index(2) :]) == limits[limits.index(2) :]
            ticking.cancel()

    play(scenario)


def test_a_turn_is_taken_for_others_too() -> None:
    """Who passes over jobs in its turn rings for those who could take them."""

    async def scenario() -> None:
        busy = Busy()
        app, limited, _ = app_with(busy, concurrency=1)
        stage = Stage(app, replace(MANY, safety_poll=2.0), limits=app.limits)
        span = timedelta(seconds=SETTINGS.lease)
        verbs = stage.backend.verbs
        stage.backend.run(verbs.register(WorkerInfo("x", "s", "host", 2, span, None, 4)))
        rings: list[float] = []
        ring = stage.backend.bell.ring
        stage.backend.bell.ring = lambda *tone: (rings.append(stage.clock.boot()), ring(*tone))[-1]
        async with working(stage):
            limited.enqueue(100.0)
            await stage.until(lambda: busy.now["limited"])
            told = Told(stage.clock.now(), stage.clock.boot(), Turn(0, 2), look=False)
            stage._far.send(Renewed(stage.clock.boot(), told))
            limited.enqueue_many([{"seconds": 1.0}] * 3)
            await asyncio.sleep(1)
            rings.clear()
            await asyncio.sleep(9)
            assert 1 <= len(rings) <= 4

    play(scenario)


@pytest.mark.parametrize("seed", range(12))
def test_any_mixture_of_limits_and_jobs(seed: int) -> None:
    """Whatever the limits, the jobs and their times: no limit is ever exceeded, and all jobs end."""

    async def scenario() -> None:
        random, busy = Random(seed), Busy()
        app = Standfast("memory://")
        limits: dict[str, int] = {}
        for gate in ("g0", "g1"):
            limits[gate] = random.randint(1, 4)
            app.gate(gate, limits[gate])
        for queue in ("q0", "q1"):
            limits[queue] = random.randint(1, 6)
            app.queue(queue, concurrency=limits[queue])
        tasks = []
        for number in range(4):
            name, queue = f"t{number}", f"q{random.randint(0, 2)}"
            gates = random.sample(["g0", "g1"], random.randint(0, 2))
            limits[name] = random.randint(1, 5)
            own = {"concurrency": limits[name]} if random.random() < 0.5 else {}
            counted = (name, queue, *gates) if own else (queue, *gates)
            tasks.append(declare(app, busy, name, counted, queue=queue, gate=gates, **own))
        stage = Stage(app, replace(RARELY, max_wait=5.0, safety_poll=50.0), limits=app.limits)
        handles: list[Any] = []
        async with working(stage):
            for _ in range(60):
                task = random.choice(tasks)
                seconds = random.choice((0.0, 0.002, 0.3, 4.0))
                delay = random.choice((0.0, 0.0, random.uniform(0, 8)))
                handles.append(task.options(delay=delay, priority=random.randint(0, 1)).enqueue(seconds))
                await asyncio.sleep(random.choice((0.0, 0.0, 0.2)))
            async with asyncio.timeout(400):
                while any(stage.job(handle).state is not State.COMPLETED for handle in handles):  # noqa: ASYNC110
                    await asyncio.sleep(1)
        exceeded = {name: most for name, most in busy.most.items() if name in limits and most > limits[name]}
        assert exceeded == {}
        assert stage.clock.boot() < 300

    play(scenario)


def declare(app: Standfast, busy: Busy, name: str, counted: tuple[str, ...], **options: Any) -> Any:
    async def handler(seconds: float) -> None:
        with busy.inside(*counted):
            await asyncio.sleep(seconds)

    return app.task(handler, name=name, **options)


def test_a_store_that_takes_long_to_pass_over_jobs_is_left_alone() -> None:
    """After a claim that took longer than others, for four times as long, and no longer than half a second."""
    app, *_ = app_with(Busy(), concurrency=1)
    gates = Gates(app.limits, 10)
    plain = ClaimRequest("w", 1, 1)
    narrow = replace(plain, closed_tasks=("limited",))
    assert gates.rest_after(narrow, 0.5) == 0
    assert gates.rest_after(plain, 0.01) == 0
    assert gates.rest_after(narrow, 0.011) == 0
    assert gates.rest_after(narrow, 0.06) == pytest.approx(0.2)
    assert gates.rest_after(narrow, 9.0) == 0.5


async def line_up(stage: Stage, limited: Any) -> list[Any]:
    """Let some jobs wait at a gate behind a long one, where those before were short; return them."""
    for handle in limited.enqueue_many([{"seconds": 0.001}] * 50):
        await stage.settled(handle)
    first, *others = limited.enqueue_many([{"seconds": 100.0}, *([{"seconds": 0.001}] * 5)])
    await stage.until(lambda: stage.job(first).state is State.RUNNING)
    assert {stage.job(handle).state for handle in others} == {State.HELD}
    return others


def test_who_waits_at_a_gate_in_vain_goes_back() -> None:
    """Within two seconds others may have it, and it is not claimed again before there is room."""

    async def scenario() -> None:
        app, limited, _ = app_with(Busy(), concurrency=1)
        stage = Stage(app, RARELY, limits=app.limits)
        async with working(stage):
            waiting = await line_up(stage, limited)
            await asyncio.sleep(2)
            assert {stage.job(handle).state for handle in waiting} == {State.READY}
            assert released(stage, waiting) == len(waiting)
            await asyncio.sleep(50)
            assert released(stage, waiting) == len(waiting)

    play(scenario)


def test_who_waits_at_a_gate_in_vain_goes_back_soon_where_there_are_others() -> None:
    """They may have room for it."""

    async def scenario() -> None:
        app, limited, _ = app_with(Busy(), concurrency=1)
        stage = Stage(app, RARELY, limits=app.limits)
        async with working(stage):
            told = Told(stage.clock.now(), stage.clock.boot(), Turn(0, 2), look=False)
            stage._far.send(Renewed(stage.clock.boot(), told))
            waiting = await line_up(stage, limited)
            await asyncio.sleep(0.5)
            assert {stage.job(handle).state for handle in waiting} == {State.READY}

    play(scenario)


def test_who_waits_at_a_gate_may_be_cancelled_and_goes_back_at_a_stop() -> None:
    """It is held like any other claim that has not started."""

    async def scenario() -> None:
        app, limited, _ = app_with(Busy(), concurrency=1)
        stage = Stage(app, RARELY, limits=app.limits)
        async with working(stage):
            waiting = await line_up(stage, limited)
            assert waiting[0].cancel()
            stage.pass_on()
            await asyncio.sleep(0.1)
            assert stage.job(waiting[0]).state is State.CANCELLED
        assert {stage.job(handle).state for handle in waiting[1:]} == {State.READY}

    play(scenario)


@pytest.mark.parametrize("what", ["worker", "task"])
def test_the_end_of_a_peak_needs_no_other_reason_to_look(what: str) -> None:
    """A worker that starts inside one, and whose jobs go on beyond it, takes more at its end."""

    async def scenario() -> None:
        busy, peak = Busy(), {Window("23:00", "00:03"): 2}
        app, limited, _ = app_with(busy, **({"peak": peak} if what == "task" else {}))
        if what == "worker":
            app.peak(peak)
        stage = Stage(app, RARELY, limits=app.limits)
        async with working(stage):
            limited.enqueue_many([{"seconds": 1000.0}] * 20)
            await asyncio.sleep(179.9)
            assert busy.now["limited"] == 2
            await asyncio.sleep(0.2)
            assert busy.now["limited"] == 10

    play(scenario)


def test_a_job_of_a_task_with_room_costs_one_claim() -> None:
    """A gate that is not full is no reason to look again."""

    async def scenario() -> None:
        app, limited, _ = app_with(Busy(), concurrency=2)
        stage = Stage(app, RARELY, limits=app.limits)
        claims = Claims(stage)
        async with working(stage):
            await stage.until(lambda: claims.requests)
            for _ in range(5):
                await stage.settled(limited.enqueue(0.1))
                await asyncio.sleep(1)
            assert len(claims.requests) == 6

    play(scenario)


def test_a_gate_that_had_too_many_once_does_not_hold_up_others() -> None:
    """Once its jobs are gone the others are claimed in large numbers again."""

    async def scenario() -> None:
        app, limited, free = app_with(Busy(), concurrency=1)
        stage = Stage(app, RARELY, limits=app.limits)
        claims = Claims(stage)
        async with working(stage):
            several = limited.enqueue_many([{"seconds": 2.0}] * 5)
            for handle in several:
                await stage.settled(handle)
            assert released(stage, several)
            before = len(claims.requests)
            for handle in free.enqueue_many([{"seconds": 0.5}] * 100):
                await stage.settled(handle)
            assert len(claims.requests) - before <= 25

    play(scenario)
