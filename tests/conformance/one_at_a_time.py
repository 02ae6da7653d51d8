"""A key is in the hands of one job at a time, whatever clients, workers and supervisors do in whatever order."""

from contextlib import suppress
from datetime import timedelta
from random import Random

import pytest

from conformance.harness import KNOWN, Harness
from standfast.errors import JobNotFoundError, KeyTakenError
from standfast.model.crash import DeathKind
from standfast.model.job import ClaimRef, JobAction, OnConflict
from standfast.model.states import CLAIMED, ENDINGS, FINAL, Move, Reason, State
from standfast.stores.contract import cancel_job, change_job


class OneAtATime:
    """Whatever happens in whatever order, two jobs with one key are never both in hand or to be had."""

    @pytest.mark.parametrize("seed", range(8))
    def test_a_key_never_runs_twice(self, harness: Harness, seed: int) -> None:
        """After each of many random steps at most one job of a key is unfinished and not blocked(replacing)."""
        walk = _Walk(harness, Random(seed))
        for _ in range(60):
            walk.step()
            walk.check()
        assert walk.claimed > 0


class _Walk:
    """Random steps of clients, workers and supervisors over a few jobs with one key."""

    def __init__(self, harness: Harness, random: Random) -> None:
        self._harness = harness
        self._random = random
        self._worker = harness.register()
        self._ids: list[str] = []
        self.claimed = 0

    def step(self) -> None:
        """Do something."""
        often, seldom = (self._enqueue, self._claim, self._finish), (self._cancel, self._requeue, self._bury)
        with suppress(KeyTakenError, JobNotFoundError):
            self._random.choice([*often, *often, *seldom])()

    def _enqueue(self) -> None:
        on_conflict = self._random.choice([OnConflict.REPLACE, *OnConflict])
        keep_key = timedelta(seconds=self._random.choice([0, 0, 1]))
        job = self._harness.new_job(key="k", on_conflict=on_conflict, keep_key=keep_key)
        if not self._harness.run(self._harness.verbs.enqueue([job])):
            self._ids.append(job.id)
        self._harness.clock.advance(0.5)

    def _claim(self) -> None:
        claims = self._harness.claim(self._worker, adopt=(KNOWN,))
        claims += self._harness.claim(self._worker, adopt=(KNOWN,), group=1)
        self.claimed += len(claims)
        for claim in claims:
            if self._random.random() < 0.5:
                self._harness.start(self._worker, claim.ref)

    def _finish(self) -> None:
        move = self._random.choice([*sorted(ENDINGS), Move.RELEASE, Move.RETRY, Move.COMPLETE])
        for job in self._harness.snapshot().jobs:
            if job.state in CLAIMED:
                ref = ClaimRef(job.id, job.fence)
                self._harness.finish(self._worker, ref, move, reason=Reason.NO_WORKER)

    def _cancel(self) -> None:
        self._harness.run(cancel_job(self._harness.verbs, self._random.choice(self._ids or ["none"])))

    def _requeue(self) -> None:
        for job in self._harness.snapshot().jobs:
            if job.state is State.DEAD:
                self._harness.run(change_job(self._harness.verbs, JobAction.RETRY, job.id))

    def _bury(self) -> None:
        self._harness.bury(self._worker, self._random.choice(list(DeathKind)))
        self._worker = self._harness.register()

    def check(self) -> None:
        """See that the key is in one job's hands, and that at most one waits to follow it."""
        unfinished = {job.id: job for job in self._harness.snapshot().jobs if job.state not in FINAL}
        after = [job for job in unfinished.values() if job.reason == Reason.REPLACING]
        assert len(unfinished) - len(after) <= 1
        assert len(after) <= 1
        for job in after:
            assert job.after is not None
            assert unfinished[job.after].state in CLAIMED
