"""The two drivers share every verb, and ring the bell when a job may have become due."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from conformance.harness import Harness
from standfast.model.crash import Death, DeathKind
from standfast.model.job import ClaimRef, Ending, JobAction, Verdict
from standfast.model.states import ENDINGS, RETURNS, Move, State
from standfast.stores.contract import cancel_job, change_job
from standfast.stores.values import ClaimRequest, WorkerBeat
from standfast.stores.verb import Tone, Verb

REF = ClaimRef("01900000-0000-7000-8000-000000000001", 1)
LONG = 30.0
"""Seconds that a test would wait for a ring that never comes."""


class Driving:
    """A verb runs the same from sync and from async code."""

    def test_async_runs_what_sync_runs(self, harness: Harness) -> None:
        """Both drivers see one store."""
        job = harness.new_job()
        worker = harness.register()
        backend, verbs = harness.backend, harness.verbs

        async def work() -> tuple[Verdict, ...]:
            await backend.arun(verbs.enqueue([job]))
            answer = await backend.arun(verbs.claim(ClaimRequest(worker, 1, 10)))
            return await backend.arun(verbs.finish(worker, [Ending(answer.jobs[0].ref, Move.COMPLETE)]))

        assert asyncio.run(work()) == (Verdict.ACCEPTED,)
        assert harness.job(job.id).state is State.COMPLETED

    def test_claims_made_at_once_never_meet(self, harness: Harness) -> None:
        """Many workers claim from many threads, and each job goes to one of them, once."""
        jobs = [harness.new_job() for _ in range(100)]
        harness.run(harness.verbs.enqueue(jobs))
        workers = [harness.register() for _ in range(4)]

        def claim_all(worker: str) -> list[str]:
            calls = [harness.verbs.claim(ClaimRequest(worker, call, 5)) for call in range(1, 16)]
            return [claim.job_id for verb in calls for claim in harness.run(verb).jobs]

        with ThreadPoolExecutor(len(workers)) as threads:
            claimed = [job_id for ids in threads.map(claim_all, workers) for job_id in ids]
        assert sorted(claimed) == [job.id for job in jobs]

    def test_endings_sent_at_once_count_once(self, harness: Harness) -> None:
        """One ending sent from many threads is accepted each time and charged once."""
        placed = harness.place(State.RUNNING)

        def finish(_: int) -> Verdict:
            return harness.finish(placed.worker, placed.ref, Move.RETRY)

        with ThreadPoolExecutor(4) as threads:
            verdicts = list(threads.map(finish, range(8)))
        assert verdicts == [Verdict.ACCEPTED] * 8
        assert harness.job(placed.job_id).attempt == 1

    def test_which_verbs_wake(self, harness: Harness) -> None:
        """A verb that may make a job due says so; one that never does lets everyone sleep."""
        verbs = harness.verbs
        beat = WorkerBeat("w")
        waking: list[Verb[Any]] = [
            verbs.enqueue([]),
            change_job(verbs, JobAction.RETRY, "x"),
            change_job(verbs, JobAction.DISCARD, "x", instead=harness.new_job()),
            verbs.signal("x", "go", "t1", b"1"),
            verbs.resume("q"),
            verbs.reconcile(beat),
            verbs.bury("w", Death(DeathKind.STOPPED)),
        ]
        silent: list[Verb[Any]] = [
            cancel_job(verbs, "x"),
            verbs.pause("q"),
            change_job(verbs, JobAction.DISCARD, "x"),
            verbs.save("w", []),
            verbs.memos("x"),
            verbs.get("x"),
            verbs.beat([beat]),
        ]
        assert all(verb.wakes for verb in waking)
        assert not any(verb.wakes for verb in silent)

    @pytest.mark.parametrize("move", sorted(ENDINGS))
    def test_an_ending_wakes_when_its_job_returns(self, harness: Harness, move: Move) -> None:
        """A batch of endings wakes workers only if one of its jobs waits again."""
        endings = [Ending(REF, Move.COMPLETE), Ending(REF, move)]
        assert harness.verbs.finish("w", endings).wakes is (move in RETURNS)

    def test_which_verbs_tell(self, harness: Harness) -> None:
        """A verb that may end a job or move its progress says so; one that never does disturbs nobody who waits."""
        verbs = harness.verbs
        beat = WorkerBeat("w")
        telling: list[Verb[Any]] = [
            verbs.finish("w", [Ending(REF, Move.COMPLETE)]),
            verbs.progress("w", []),
            cancel_job(verbs, "x"),
            change_job(verbs, JobAction.DISCARD, "x"),
            change_job(verbs, JobAction.DISCARD, "x", instead=harness.new_job()),
            verbs.reconcile(beat),
            verbs.bury("w", Death(DeathKind.STOPPED)),
        ]
        silent: list[Verb[Any]] = [
            verbs.enqueue([]),
            verbs.claim(ClaimRequest("w", 1, 1)),
            verbs.start("w", []),
            verbs.save("w", []),
            verbs.signal("x", "go", "t1", b"1"),
            verbs.pause("q"),
            verbs.glance([]),
            verbs.beat([beat]),
        ]
        assert all(verb.tells for verb in telling)
        assert not any(verb.tells for verb in silent)

    def test_each_hears_its_own_tone(self, harness: Harness) -> None:
        """An enqueue is heard by those who wait for work, an ending by those who wait for jobs, however late."""

        async def hear() -> list[bool]:
            bell, job = harness.backend.bell, harness.new_job()
            worker, waiter = bell.listen(Tone.WORK), bell.listen(Tone.RESULT)
            try:
                await harness.backend.arun(harness.verbs.enqueue([job]))
                await harness.backend.arun(cancel_job(harness.verbs, job.id))
                return [await worker.wait(LONG), await waiter.wait(LONG)]
            finally:
                worker.close()
                waiter.close()

        assert asyncio.run(hear()) == [True, True]

    def test_an_enqueue_rings(self, harness: Harness) -> None:
        """Whoever listens hears an enqueue, also one that came before it began to wait."""

        async def hear() -> bool:
            listener = harness.backend.bell.listen()
            try:
                await harness.backend.arun(harness.verbs.enqueue([harness.new_job()]))
                return await listener.wait(LONG)
            finally:
                listener.close()

        assert asyncio.run(hear())

    def test_a_ring_from_another_thread(self, harness: Harness) -> None:
        """A sync caller in another thread wakes a listener that already waits."""

        async def hear() -> bool:
            listener = harness.backend.bell.listen()
            try:
                waiting = asyncio.create_task(listener.wait(LONG))
                await asyncio.sleep(0)
                await asyncio.to_thread(harness.enqueue)
                return await waiting
            finally:
                listener.close()

        assert asyncio.run(hear())

    def test_every_listener_hears(self, harness: Harness) -> None:
        """One ring wakes all, and a listener that closed harms nobody."""

        async def hear() -> list[bool]:
            bell = harness.backend.bell
            listeners = [bell.listen() for _ in range(3)]
            listeners.pop().close()
            bell.ring()
            heard = [await listener.wait(LONG) for listener in listeners]
            for listener in listeners:
                listener.close()
            bell.ring()
            return heard

        assert asyncio.run(hear()) == [True, True]

    def test_a_wait_runs_out(self, harness: Harness) -> None:
        """A listener that hears nothing says so."""

        async def hear() -> bool:
            listener = harness.backend.bell.listen()
            try:
                return await listener.wait(0)
            finally:
                listener.close()

        assert not asyncio.run(hear())
