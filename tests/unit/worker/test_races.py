"""Interleavings that break a promise. Each test fails on the code as it was found."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from stage import Stage, working
from stage import play as stage_play

from simulator.fleet import KILLED, SimulatedChild, Tree
from simulator.loop import VirtualLoop
from simulator.world import EPOCH
from standfast import Standfast
from standfast.errors import StoreError, StoreUnavailableError
from standfast.model.crash import OF_HOST, is_of_host
from standfast.model.job import Ending, NewJob
from standfast.model.states import Move, Reason, State
from standfast.settings import Settings
from standfast.stores.memory.store import MemoryBackend
from standfast.stores.values import ClaimRequest
from standfast.stores.verb import Access, Verb
from standfast.supervisor.child import ChildSpec
from standfast.supervisor.plan import Plan
from standfast.worker.messages import Adopt
from virtual_fleet import Fleet, play

SETTINGS = Settings(url="memory://", grace=60.0)
EXACT = 0.02


def _enqueue(fleet: Fleet, job_id: str, kind: str, at: float, lasts: float) -> None:
    payload = msgspec.json.encode({"v": 1, "args": {"kind": kind, "seconds": lasts}})
    enqueue = fleet.store.enqueue([NewJob(job_id, "work", payload, run_at=EPOCH + timedelta(seconds=at))])
    fleet.store.apply(enqueue)
    for tone in enqueue.tones:
        fleet.bell.ring(tone)


async def _late(fleet: Fleet, at: float) -> float:
    """Enqueue forty short jobs for the only worker that takes any; return the longest delay."""
    await fleet.until(at)
    fleet.enqueue([at + 1 + place / 20 for place in range(40)], lasts=0.05)
    await fleet.until(at + 15)
    starts = fleet.ledger.starts
    return max(starts[job_id][0][0] - due for job_id, due in fleet.run_at.items())


# -- a worker that takes no turns has some ---------------------------------------------------------------------


@pytest.mark.parametrize("phase", [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5])
def test_the_turns_of_a_worker_that_is_stopping_are_not_waited_for(phase: float) -> None:
    """It beats for as long as its last handler runs, and never looks for jobs again."""

    async def scenario(fleet: Fleet) -> None:
        leaving = fleet.start()
        await fleet.until(3)
        _enqueue(fleet, "long", "ok", 5.0, 1000.0)
        await fleet.until(6)
        fleet.start()
        await fleet.until(8)
        leaving.stop()
        assert await _late(fleet, 20.1 + phase) < EXACT

    play(scenario, SETTINGS)


@pytest.mark.parametrize("phase", [0.0, 1.5, 3.0, 4.5, 6.0, 7.5, 9.0, 10.5])
def test_many_workers_that_are_stopping_take_their_turns_and_call_the_one_that_stays(phase: float) -> None:
    """More of them than would look to be sure; each is busy to the end, and sees what is left to it."""

    async def scenario(fleet: Fleet) -> None:
        leaving = [fleet.start() for _ in range(6)]
        await fleet.until(3)
        for place in range(24):
            _enqueue(fleet, f"long-{place}", "ok", 5.0, 1000.0)
        await fleet.until(6)
        fleet.start()
        await fleet.until(8)
        for tree in leaving:
            tree.stop()
        assert await _late(fleet, 20.1 + phase) < EXACT

    play(scenario, replace(SETTINGS, concurrency=4))


@pytest.mark.parametrize("before", [-0.3, -1.5, 0.3, 1.5])
@pytest.mark.parametrize("phase", [0.0, 1.5, 3.0, 4.5, 6.0, 7.5, 9.0, 10.5])
def test_the_turns_of_those_who_have_just_gone_are_not_waited_for(phase: float, before: float) -> None:
    """All but one go at once, and it counts them until its next beat; the jobs come shortly before or after."""

    async def scenario(fleet: Fleet) -> None:
        stays, *leaving = [fleet.start() for _ in range(8)]
        at = 20.1 + phase
        await fleet.until(min(at, at - before))
        if before < 0:
            for tree in leaving:
                tree.stop()
            await fleet.until(at)
        fleet.enqueue([at + 2.2 + place / 10 for place in range(40)], lasts=0.05)
        if before > 0:
            await fleet.until(at + before)
            for tree in leaving:
                tree.stop()
        await fleet.until(at + 15)
        assert stays.process.alive
        assert max(fleet.delays()) < EXACT

    play(scenario, replace(SETTINGS, concurrency=4))


@pytest.mark.parametrize("phase", [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5])
def test_the_turns_of_a_child_that_runs_a_suspect_are_not_waited_for(phase: float) -> None:
    """It takes one job and no turns, but is registered for all queues as any other."""

    async def scenario(fleet: Fleet) -> None:
        fleet.start()
        await fleet.until(3)
        _enqueue(fleet, "suspect", "crash_once", 4.0, 40.0)
        await fleet.until(50)
        assert len(fleet.ledger.starts["suspect"]) == 2  # crashed its child, and runs alone
        assert await _late(fleet, 60.1 + phase) < EXACT

    play(scenario, SETTINGS)


@pytest.mark.parametrize("phase", [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5])
def test_what_a_worker_gives_back_when_it_stops_is_on_time_elsewhere(phase: float) -> None:
    """It is gone at once, and the other has a place; but it counts on the next turn of the one that has gone."""

    async def scenario(fleet: Fleet) -> None:
        await fleet.start_all(2)
        at = 20.1 + phase
        await fleet.until(at)
        fleet.enqueue([at + 2.0], lasts=0.05)
        await fleet.until(at + 0.1)
        fleet.enqueue([at + 2.6], lasts=0.05)
        await fleet.until(at + 0.4)
        holder = fleet.store._jobs["job-0001"].worker
        assert holder is not None
        assert holder != fleet.store._jobs["job-0000"].worker
        next(tree for tree in fleet.trees if fleet.worker_process[holder] in tree.children).stop()
        await fleet.until(at + 15)
        assert max(fleet.delays()) < EXACT

    play(scenario, replace(SETTINGS, concurrency=1))


@pytest.mark.parametrize("away", [False, True])
@pytest.mark.parametrize("runs", [0.0, 7.0])
def test_turns_that_are_left_do_not_hold_up_a_stop(runs: float, away: bool) -> None:
    """It ends with its last handler, also while a look in its turn is not answered, or cannot be made."""
    app = Standfast("memory://")

    @app.task
    async def sleep() -> None:
        await asyncio.sleep(runs)

    async def scenario() -> None:
        stage = Stage(app, replace(SETTINGS, safety_poll=1.0))
        plain, looks = stage.backend.arun, list[float]()

        async def arun(verb: Verb[Any]) -> Any:
            if verb.name == "claim":
                looks.append(stage.clock.boot())
                if away:
                    await asyncio.sleep(1000)
            return await plain(verb)

        running = asyncio.ensure_future(stage.worker.run())
        stage.renew()
        if runs:
            sleep.enqueue()
        await asyncio.sleep(1.5)
        stage.backend.arun = arun  # type: ignore[method-assign]
        stage.worker.stop(60.0)
        stopped_at = stage.clock.boot()
        await running
        assert stage.clock.boot() - stopped_at == pytest.approx(max(runs - 1.5, 0.0), abs=0.1)
        assert bool(looks) == bool(runs)

    stage_play(scenario)


# -- suspects, side by side ------------------------------------------------------------------------------------


class SlowTree(Tree):
    """A machine on which a process takes a moment to start, as on every real one."""

    async def launch(self, spec: ChildSpec) -> SimulatedChild:
        await asyncio.sleep(0.05)
        return await super().launch(spec)


def test_each_group_of_suspects_gets_one_child_however_long_that_takes_to_start() -> None:
    """Of eight that ran in one process four run together again at most, all at once, in two children."""

    async def scenario(fleet: Fleet) -> None:
        tree = SlowTree(fleet, fleet.settings, 2)
        fleet.trees.append(tree)
        await fleet.until(3)
        for place in range(8):
            _enqueue(fleet, f"suspect-{place}", "ok", 3.1, 20.0)
        await fleet.until(4)
        first, second = (process for process in tree.children if process.alive)
        first.end(KILLED)
        second.end(KILLED)
        killed_at = fleet.clock.boot()
        await fleet.until(12)
        of_suspects = [process for process in tree.children if process.group]
        assert [process.group for process in of_suspects] == [4, 4]
        again = [starts[-1][0] for starts in fleet.ledger.starts.values() if len(starts) == 2]
        assert len(again) == 8
        assert max(again) - killed_at < 1

    play(scenario, SETTINGS)


def test_who_lost_its_host_twice_runs_in_one_group_at_a_time() -> None:
    """At first as any other job; then four together, as whoever takes a host down takes all groups there."""

    async def scenario(fleet: Fleet) -> None:
        lost = fleet.start()
        await fleet.until(3)
        fleet.enqueue([3.1] * 8, lasts=30.0)
        await fleet.until(5)
        fleet.kill(lost)
        again = fleet.start()
        await fleet.until(30)
        assert [len(starts) for starts in fleet.ledger.starts.values()] == [2] * 8
        assert [process.group for process in again.children] == [0]
        fleet.kill(again)
        last = fleet.start()
        most = 0
        while fleet.clock.boot() < 140:
            await asyncio.sleep(0.1)
            most = max(most, sum(process.alive and is_of_host(process.group) for process in last.children))
        assert most == 1
        assert [process.group for process in last.children] == [0, OF_HOST + 4, OF_HOST + 4]
        rows = fleet.store._jobs.values()
        assert {(row.state, row.attempt, row.crashes) for row in rows} == {(State.COMPLETED, 0, 2)}

    play(scenario, SETTINGS)


class Shared(Tree):
    """A host whose suspects have no processes of their own."""

    isolates = False


def test_suspects_that_share_a_process_run_one_group_at_a_time() -> None:
    async def scenario(fleet: Fleet) -> None:
        tree = Shared(fleet, fleet.settings, 1)
        fleet.trees.append(tree)
        await fleet.until(3)
        fleet.enqueue([3.1] * 8, lasts=5.0)
        await fleet.until(4)
        tree.children[0].end(KILLED)
        await fleet.until(25)
        runs = sorted(starts[-1][0] for starts in fleet.ledger.starts.values())
        assert runs[3] - runs[0] < EXACT
        assert runs[4] - runs[3] > 5.0
        assert {row.state for row in fleet.store._jobs.values()} == {State.COMPLETED}

    play(scenario, SETTINGS)


# -- the death of a child, and a beat that is under way --------------------------------------------------------


class SlowBeats(Fleet):
    """A fleet whose beats take a while to reach the store."""

    delay = 0.5

    async def call(self, verb: Verb[Any]) -> Any:
        if verb.name == "beat":
            await asyncio.sleep(self.delay)
        return await super().call(verb)


def test_a_child_that_its_own_supervisor_buried_is_not_told_to_be_lost() -> None:
    """WorkerLost says that others took a living worker for dead: an operator would look at clocks and networks."""

    async def scenario(fleet: Fleet) -> None:
        tree = fleet.start(2)
        await fleet.until(9.9)
        sent = [at for at, verb in fleet.store.calls if verb == "beat"][-1] - 0.5
        await fleet.until(sent + fleet.settings.beat_every + 0.7)  # a beat is on its way
        next(process for process in tree.children if process.alive).end(KILLED)
        await fleet.until(20)
        assert [line for line in fleet.trace.lines if "WorkerCrashed" in line]
        assert not [line for line in fleet.trace.lines if "WorkerLost" in line]

    _play_with_slow_beats(scenario)


@pytest.mark.parametrize("slow", [False, True])
def test_a_drain_does_not_end_before_its_first_beat_told_what_to_adopt(slow: bool) -> None:
    """`standfast worker new:app --drain` after `old:app --drain`, as in docs/howto/stop-and-deploy.md."""

    async def scenario(fleet: Fleet) -> None:
        _enqueue(fleet, "new", "ok", 0.0, 0.01)
        fleet.store._jobs["new"].block(Reason.NO_WORKER)
        tree = fleet.start()
        tree._supervisor._plan = Plan(1, drain=True)
        await fleet.until(9)
        assert not tree.process.alive  # drained
        assert "new" in fleet.ledger.starts

    _play_with_slow_beats(scenario, 0.5 if slow else 0.0)


def _play_with_slow_beats(scenario: Callable[[Fleet], Awaitable[None]], delay: float = 0.5) -> None:
    async def whole() -> None:
        fleet = SlowBeats(SETTINGS)
        fleet.delay = delay
        try:
            await scenario(fleet)
        finally:
            for process in fleet.processes:
                process.haunt()
            left = asyncio.all_tasks() - {asyncio.current_task()}
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left, timeout=1.0)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(whole())


# -- between the claim and the handler -------------------------------------------------------------------------


def _hold_up(stage: Stage, name: str, seconds: float) -> None:
    """Let calls of this verb be answered so late, though they are carried out at once."""
    plain = stage.backend.arun

    async def arun(verb: Verb[Any]) -> Any:
        answer = await plain(verb)
        if verb.name == name:
            await asyncio.sleep(seconds)
        return answer

    stage.backend.arun = arun  # type: ignore[method-assign]


def test_a_job_whose_queue_was_paused_while_it_was_marked_does_not_start() -> None:
    """The worker has heard of the pause, and the handler has not begun."""
    app = Standfast("memory://")
    started: list[float] = []

    @app.task(max_attempts=1)
    async def once() -> None:
        started.append(asyncio.get_running_loop().time())

    async def scenario() -> None:
        stage = Stage(app)
        _hold_up(stage, "start", 3.0)
        async with working(stage):
            handle = once.enqueue()
            await asyncio.sleep(1.0)
            stage.backend.run(stage.backend.verbs.pause("default"))
            stage.pass_on()
            await asyncio.sleep(5.0)
            assert started == []
            assert stage.job(handle).state is State.READY

    stage_play(scenario)


def test_a_child_for_a_suspect_does_not_leave_before_it_has_run_it() -> None:
    """Its claim was answered so late that one more beat is needed before anything may start."""
    app = Standfast("memory://")
    started: list[float] = []

    @app.task
    async def suspect() -> None:
        started.append(asyncio.get_running_loop().time())

    async def scenario() -> None:
        settings = Settings(url="memory://", lease=15.0, store_timeout=20.0)
        stage = Stage(app, settings, group=1)
        _hold_up(stage, "claim", 2 * settings.beat_every + 0.5)
        handle = suspect.enqueue()
        stage.backend.verbs._jobs[handle.id].group = 1
        running = asyncio.ensure_future(stage.worker.run())
        for _ in range(8):
            stage.pass_on()
            await asyncio.sleep(settings.beat_every)
        await running
        assert started

    stage_play(scenario)


@pytest.mark.parametrize("failures", [0, 1])
def test_what_a_failed_claim_was_to_adopt_is_adopted_by_the_next(failures: int) -> None:
    """And not only when the next beat names it again."""
    app = Standfast("memory://")
    started: list[float] = []

    @app.task
    async def known() -> None:
        started.append(asyncio.get_running_loop().time())

    async def scenario() -> None:
        stage = Stage(app)
        verbs, plain, failed = stage.backend.verbs, stage.backend.arun, list[str]()

        async def arun(verb: Verb[Any]) -> Any:
            if verb.name == "claim" and len(failed) < failures:
                failed.append(verb.name)
                raise StoreUnavailableError("once")
            return await plain(verb)

        handle = known.enqueue()
        [claim] = stage.backend.run(verbs.claim(ClaimRequest("w", 1, 1))).jobs
        ending = Ending(claim.ref, Move.BLOCK, reason=Reason.NO_WORKER)  # as a worker of the release before ends it
        stage.backend.run(verbs.finish("w", [ending]))
        async with working(stage):
            await asyncio.sleep(1.0)
            stage.backend.arun = arun  # type: ignore[method-assign]
            stage._far.send(Adopt(((known.name, 1),)))
            await asyncio.sleep(4.0)
            assert len(failed) == failures
            assert stage.job(handle).state is State.COMPLETED

    stage_play(scenario)


def test_a_job_that_never_started_does_not_die_of_an_error_of_the_store() -> None:
    app = Standfast("memory://")

    @app.task(max_attempts=1)
    async def once() -> str:
        return "done"

    async def scenario() -> None:
        stage = Stage(app)
        plain, failed = stage.backend.arun, []

        async def arun(verb: Verb[Any]) -> Any:
            if verb.name == "start" and not failed:
                failed.append(verb)
                raise StoreError("the rights were taken away for a moment")
            return await plain(verb)

        stage.backend.arun = arun  # type: ignore[method-assign]
        async with working(stage):
            handle = once.enqueue()
            job = await stage.settled(handle)
            assert failed
            assert job.state is State.COMPLETED

    stage_play(scenario)


# -- the time of a store elsewhere -----------------------------------------------------------------------------


class Elsewhere(MemoryBackend):
    """A store on another machine: its reads are quick, and its writes wait for a disk before they are answered."""

    async def arun(self, verb: Verb[Any]) -> Any:
        answer = await super().arun(verb)
        await asyncio.sleep(0.0002 if verb.access is Access.READ else 0.2)
        return answer


def test_a_better_known_time_moves_the_alarm_that_is_set() -> None:
    """The store was asked for its time so that the job is on time; but the alarm was set before."""
    app = Standfast("memory://")
    started: list[float] = []

    @app.task
    async def work() -> None:
        started.append(asyncio.get_running_loop().time())

    async def scenario() -> None:
        stage = Stage(app)
        stage.backend.__class__ = Elsewhere
        stage.worker._clock._same = False
        async with working(stage):
            await asyncio.sleep(1.0)
            due = asyncio.get_running_loop().time() + 0.95
            work.options(delay=0.95).enqueue()
            await asyncio.sleep(0.85)
            assert stage.worker._clock.vagueness < 0.001  # the time is known, before it is the job's
            await asyncio.sleep(1.0)
            assert started[0] - due < 0.01

    stage_play(scenario)
