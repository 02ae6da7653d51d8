"""A loop of the worker's own that fails is begun again; where that does not help, the worker has itself replaced.

Each loop is made to fail in the middle of its work, by what it is made of: once, and again and again. No job is
lost for it, and none is run twice.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from stage import SETTINGS, Stage, play

from standfast import Context, Standfast
from standfast.events import JobCompleted
from standfast.model.incidents import Trouble
from standfast.model.states import State
from standfast.stores.values import WorkerBeat
from standfast.worker.claim_log import read_claim_log
from standfast.worker.loops import FIRST_REST, MOST_FAILURES
from standfast.worker.messages import Noticed, Unfit

JOBS = 40


class Bug(Exception):  # noqa: N818 - it is one
    """What nobody expects."""


class Failing:
    """Stands in for a method: it fails so many times, before or after the method has done its work."""

    def __init__(self, home: Any, name: str, times: int, *, after: bool = False) -> None:
        self._real: Callable[..., Any] = getattr(home, name)
        self._after = after
        self.left = times
        setattr(home, name, self)

    def __call__(self, *args: Any, **more: Any) -> Any:
        if not self.left:
            return self._real(*args, **more)
        self.left -= 1
        if self._after:
            self._real(*args, **more)
        raise Bug("as planned")


class Theatre:
    """A worker with jobs to run, and what its supervisor hears of it."""

    def __init__(self) -> None:
        self.app = Standfast("memory://")
        self.runs: list[str] = []

        @self.app.task
        async def work(ctx: Context) -> None:
            self.runs.append(ctx.job_id)
            ctx.progress(1, 2)
            await asyncio.sleep(0.5)

        self.work = work
        self.stage = Stage(self.app, SETTINGS)
        self.worker = self.stage.worker
        self.heard: list[Any] = []

    async def play(self, break_it: Callable[[Any], Failing], *, at_first: bool, to_its_end: bool) -> Failing:
        """Run jobs, break something at first or under way, and run the rest; or go on until the worker leaves."""
        handles = self.handles = [self.work.enqueue() for _ in range(JOBS)]
        failing = break_it(self.worker) if at_first else None
        running = asyncio.ensure_future(self.worker.run())
        hearing = asyncio.ensure_future(self._hear())
        self.stage.renew()
        await self.stage.until(lambda: len(self.runs) >= 2)
        failing = failing or break_it(self.worker)
        for _ in range(60):
            await asyncio.sleep(1.0)
            self._beat()
            done = all(self.stage.job(each).state is State.COMPLETED for each in handles)
            if running.done() or (done and not to_its_end):
                break
        self.replaced = running.done()
        self.stage.stop()
        await running
        self.worker.unhandled.tell_all()
        await asyncio.sleep(1.0)
        hearing.cancel()
        return failing

    def _beat(self) -> None:
        """Beat as its supervisor does: what the notes do not name goes back."""
        noted = read_claim_log(self.worker._ports.claim_log)
        self.stage.backend.run(self.stage.backend.verbs.reconcile(WorkerBeat("w", noted.closed_call, noted.held)))
        self.stage.pass_on()

    async def _hear(self) -> None:
        while (message := await self.stage._far.receive()) is not None:
            self.heard.append(message)

    @property
    def incidents(self) -> list[Noticed]:
        return [each for each in self.heard if isinstance(each, Noticed) and each.trouble is Trouble.EXCEPTION]

    @property
    def unfit(self) -> list[Unfit]:
        return [each for each in self.heard if isinstance(each, Unfit)]


LOOPS: dict[str, tuple[str, Callable[[Any, int], Failing]]] = {
    "claim-fails": ("claimer", lambda worker, times: Failing(worker._claimer, "_request", times)),
    "answer-not-heeded": ("claimer", lambda worker, times: Failing(worker._claimer, "_heed", times, after=True)),
    "note-of-claims-fails": ("claimer", lambda worker, times: Failing(worker._claim_log, "answered", times)),
    "bell": ("bell", lambda worker, times: Failing(worker._claimer, "_listener", times)),
    "send-fails": ("completer", lambda worker, times: Failing(worker._completer, "_send", times)),
    "sent-and-fails": ("completer", lambda worker, times: Failing(worker._claim_log, "ended", times)),
    "told-and-fails": ("completer", lambda worker, times: Failing(worker._completer, "settled", times, after=True)),
    "reporter": ("reporter", lambda worker, times: Failing(worker._reporter, "_mark_long_ones", times)),
    "timekeeper": ("timekeeper", lambda worker, times: Failing(worker._timekeeper, "run", times)),
    "pulse": ("pulse", lambda worker, times: Failing(worker, "_say_alive", times)),
    "listener": ("listener", lambda worker, times: Failing(worker, "_heed", times)),
}

AT_FIRST = {"bell", "timekeeper"}
"""Those that do nothing more once they run: the fault must be there before."""


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_that_fails_once_is_begun_again(name: str) -> None:
    """An incident names it, every job runs once and completes, and the worker stays."""
    loop, make = LOOPS[name]

    async def scenario() -> None:
        theatre = Theatre()
        failing = await theatre.play(lambda worker: make(worker, 1), at_first=name in AT_FIRST, to_its_end=False)
        assert failing.left == 0
        assert not theatre.replaced
        assert theatre.unfit == []
        [incident] = theatre.incidents
        assert f"the {loop}, a loop of the worker's own" in incident.summary
        assert f"begun again after {FIRST_REST:g} s" in incident.parts["context"]
        assert "Bug: as planned" in incident.parts["traceback"]
        assert [theatre.stage.job(each).state for each in theatre.handles] == [State.COMPLETED] * JOBS
        assert sorted(theatre.runs) == sorted(each.id for each in theatre.handles)
        told = [event.job_id for event in theatre.stage.told if isinstance(event, JobCompleted)]
        assert len(told) == len(set(told))
        assert len(told) == JOBS or name == "told-and-fails"

    play(scenario)


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_that_fails_again_and_again_has_the_worker_replaced(name: str) -> None:
    """It stops of its own accord, and what it leaves was not run twice, nor lost: the store still has it."""
    loop, make = LOOPS[name]

    async def scenario() -> None:
        theatre = Theatre()
        await theatre.play(lambda worker: make(worker, 1_000_000), at_first=name in AT_FIRST, to_its_end=True)
        assert theatre.replaced
        [unfit] = theatre.unfit
        assert unfit.reason == f"its {loop} failed: Bug: as planned"
        assert sum(each.count for each in theatre.incidents) >= MOST_FAILURES
        assert len(theatre.runs) == len(set(theatre.runs))
        for handle in theatre.handles:
            job = theatre.stage.job(handle)
            ended = job.state is State.COMPLETED
            assert ended or job.attempt == 0, job

    play(scenario)


def test_claims_in_nobodys_hands_have_the_worker_replaced_at_once() -> None:
    """Where claims are noted and not held, to begin again would leave them there until the worker ends."""

    async def scenario() -> None:
        theatre = Theatre()
        await theatre.play(lambda worker: Failing(worker._timers, "hold", 1), at_first=False, to_its_end=True)
        assert theatre.replaced
        [unfit] = theatre.unfit
        assert "HalfDoneError" in unfit.reason
        assert len(theatre.runs) == len(set(theatre.runs))

    play(scenario)


def test_failures_that_are_far_apart_are_forgiven() -> None:
    """Five failures in five minutes are no reason to leave."""

    async def scenario() -> None:
        theatre = Theatre()
        running = asyncio.ensure_future(theatre.worker.run())
        theatre.stage.renew()
        for _ in range(2 * MOST_FAILURES):
            Failing(theatre.worker, "_say_alive", 1)
            await asyncio.sleep(20.0)
        assert not running.done()
        theatre.stage.stop()
        await running

    play(scenario)


@pytest.mark.parametrize("cancelled", [True, False])
def test_a_stop_that_comes_too_late_changes_nothing(cancelled: bool) -> None:
    """The worker is over, or is being cancelled with its process: there is nothing left to stop."""

    async def scenario() -> None:
        stage = Stage(Standfast("memory://"))
        running = asyncio.ensure_future(stage.worker.run())
        await asyncio.sleep(0)
        if cancelled:
            running.cancel()
            await asyncio.sleep(0)
        else:
            stage.stop()
            await running
        stage.worker.stop(0.0)
        await asyncio.wait([running])
        assert running.cancelled() is cancelled

    play(scenario)
