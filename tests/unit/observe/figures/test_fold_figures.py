"""No part is counted twice or lost, whoever folds, whoever dies on the way, and however late it comes."""

import asyncio
import random
from collections import Counter
from datetime import timedelta

import pytest

from figures_stage import Stage, ended, numbers
from standfast.errors import StoreUnavailableError
from standfast.model.concurrency import run_without_loop
from standfast.model.job import Verdict
from standfast.model.records import Kind
from standfast.model.states import Move
from standfast.observe.figures.counts import Tally
from standfast.observe.figures.publisher import Publisher
from standfast.observe.figures.rollup import fold_due

MOVES = {Move.COMPLETE: "completed", Move.RETRY: "failed", Move.DIE: "dead", Move.CANCEL: "cancelled"}


class Folder:
    """Someone who folds, one verb at a time, and may never come to the end."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._steps = fold_due(stage.verbs).steps
        self._verb = next(self._steps)

    def step(self, chance: random.Random) -> bool:
        """Do the next thing, of which the answer may be lost; tell whether there is another."""
        answer = self._stage.backend.run(self._verb)
        try:
            if chance.random() < 0.03:
                self._verb = self._steps.throw(StoreUnavailableError("the answer is lost"))
            else:
                self._verb = self._steps.send(answer)
        except (StopIteration, StoreUnavailableError):
            return False
        return True


class Flaky:
    """How one worker reaches the store: calls are lost on the way there or on the way back."""

    def __init__(self, stage: Stage, chance: random.Random) -> None:
        self._stage = stage
        self._chance = chance

    async def __call__(self, verb):
        if self._chance.random() < 0.15:
            verb.steps.close()
            raise StoreUnavailableError("away")
        answer = self._stage.backend.run(verb)
        if self._chance.random() < 0.15:
            raise StoreUnavailableError("the answer is lost")
        return answer


class Chaos:
    """Three workers and up to three folders, whose acts follow one another at random."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.stage = Stage()
        self.since = self.stage.clock.now()
        self.told: Counter[str] = Counter()
        self.folders: list[Folder] = []
        self.workers = []
        for number in range(3):
            tally = Tally(self.stage.clock)
            publisher = Publisher(tally, f"w{number}", self.stage.verbs, Flaky(self.stage, self.chance))
            self.workers.append((tally, publisher))
        self.acts = [self.count] * 2 + [self.publish] * 2 + [self.fold] * 4 + [self.come, self.wait]

    def act(self) -> None:
        self.chance.choice(self.acts)()

    def count(self) -> None:
        tally, _ = self.chance.choice(self.workers)
        move = self.chance.choice(list(MOVES))
        tally.count([ended(self.stage.clock, move, task=self.chance.choice("ab"))], [Verdict.ACCEPTED])
        self.told[MOVES[move]] += 1

    def publish(self) -> None:
        run_without_loop(self.chance.choice(self.workers)[1].publish())

    def come(self) -> None:
        """Someone begins to fold; or, where there are many, somebody dies."""
        if len(self.folders) < 3:
            self.folders.append(Folder(self.stage))
        else:
            self.folders.remove(self.chance.choice(self.folders))

    def fold(self) -> None:
        if self.folders:
            folder = self.chance.choice(self.folders)
            if not folder.step(self.chance):
                self.folders.remove(folder)

    def wait(self) -> None:
        self.stage.clock.advance(self.chance.choice([1.0, 15.0, 40.0]))

    def come_to_rest(self) -> None:
        """All publish what they have counted; folders end with what they have read long ago."""
        for _, publisher in self.workers:
            publisher._run = self.stage.backend.arun
            run_without_loop(publisher.publish())
        while self.folders:
            self.fold()

    def read(self, step: timedelta | None = None) -> dict[str, int]:
        return numbers(self.stage.read(self.stage.clock.now() - self.since, step=step).total)


@pytest.mark.parametrize("seed", range(25))
def test_random_interleavings_of_publish_fold_and_crash(seed):
    """Lost calls, deaths, several who fold at once: what is read is what was counted, folded or not."""
    chaos = Chaos(seed)
    stage = chaos.stage
    for _ in range(1200):
        chaos.act()
    chaos.come_to_rest()
    assert chaos.read() == chaos.read(timedelta(hours=1)) == chaos.told
    stage.clock.advance(90)
    stage.fold()
    assert chaos.read() == chaos.told
    stage.clock.advance(3 * 3600)
    stage.fold()
    assert not stage.backend.run(stage.verbs.records(Kind.TALLY))
    for step in (None, timedelta(minutes=10), timedelta(hours=1)):
        assert chaos.read(step) == chaos.told


def sources(stage: Stage) -> set[str]:
    """Return whose parts there are."""
    return {record.name.split(".")[1] for record in stage.backend.run(stage.verbs.records(Kind.TALLY))}


async def test_a_part_that_comes_again_is_not_counted_again():
    """Its answer was lost, it was folded and forgotten, and then it is sent once more."""
    stage = Stage()
    lost = StoreUnavailableError("the answer is lost")

    async def commits_and_loses(verb):
        await stage.backend.arun(verb)
        raise lost

    tally = Tally(stage.clock)
    publisher = Publisher(tally, "w", stage.verbs, commits_and_loses)
    tally.count([ended(stage.clock)], [Verdict.ACCEPTED])
    await publisher.publish()
    stage.clock.advance(90)
    stage.fold()
    assert "w" not in sources(stage)
    publisher._run = stage.backend.arun
    await publisher.publish()
    assert "w" in sources(stage)
    assert numbers(stage.read().total) == {"completed": 1}
    stage.fold()
    assert numbers(stage.read().total) == {"completed": 1}
    assert "w" not in sources(stage)


async def test_a_part_that_comes_late_reaches_every_length():
    """Its minute was folded into ten and an hour before it came; once the minute is forgotten it is dropped."""
    stage = Stage()
    stage.count(Move.COMPLETE)
    await stage.publish()
    stage.count(Move.DIE, worker="slow")
    stage.count(Move.CANCEL, worker="far too slow")
    stage.clock.advance(2 * 3600)
    stage.fold()
    assert stage.records() == {"1m": 1, "10m": 1, "1h": 1}
    await stage.workers["slow"][1].publish()
    stage.fold()
    for step in (None, timedelta(minutes=10), timedelta(hours=1)):
        assert numbers(stage.read(timedelta(hours=3), step=step).total) == {"completed": 1, "dead": 1}
    for _ in range(2):
        stage.clock.advance(3 * 3600)
        stage.fold()
    assert "1m" not in stage.records()
    await stage.workers["far too slow"][1].publish()
    assert numbers(stage.read(timedelta(hours=9)).total) == {"completed": 1, "dead": 1}
    stage.fold()
    assert numbers(stage.read(timedelta(hours=9)).total) == {"completed": 1, "dead": 1}
    assert not stage.records(Kind.TALLY)


async def test_figures_are_kept_at_falling_resolution():
    """A job a minute for a day: minutes go after six hours, ten minutes after three days, hours after thirty."""
    stage = Stage()
    for _ in range(24 * 60):
        stage.count(Move.COMPLETE)
        await stage.publish()
        stage.clock.advance(60)
        stage.fold()
    kept = stage.records()
    assert 360 <= kept["1m"] <= 425
    assert 143 <= kept["10m"] <= 145
    day = timedelta(days=1, minutes=1)
    assert stage.read(day).total.completed == 24 * 60
    assert stage.read(timedelta(hours=6)).total.completed in {360, 361}
    stage.clock.advance(3.9 * 86_400)
    stage.fold()
    stage.clock.advance(3700)
    stage.fold()
    assert stage.records() == {"1h": 25}
    assert stage.read(timedelta(days=7)).total.completed == 24 * 60
    stage.clock.advance(31 * 86_400)
    stage.fold()
    assert not stage.records()


async def test_what_was_left_for_days_is_folded_before_it_is_forgotten():
    """The fleet stopped right after it had published, and comes back when minutes are not kept any more."""
    stage = Stage()
    for _ in range(30):
        stage.count(Move.COMPLETE)
        await stage.publish()
        stage.clock.advance(60)
    stage.clock.advance(90)
    stage.fold()
    stage.count(Move.DIE)
    await stage.publish()
    stage.clock.advance(2 * 86_400)
    stage.fold()
    for _ in range(2):
        for step in (None, timedelta(hours=1)):
            assert numbers(stage.read(timedelta(days=2.5), step=step).total) == {"completed": 30, "dead": 1}
        stage.clock.advance(3700)
        stage.fold()
    assert stage.records().keys() == {"10m", "1h"}


async def test_a_store_that_takes_nothing_delays_nobody():
    """A failure to publish is kept for the next time; one that hangs is left when the process ends."""
    stage = Stage()
    tally = stage.worker()

    async def hangs(_verb):
        await asyncio.sleep(3600)

    publisher = Publisher(tally, "w1", stage.verbs, hangs)
    stage.count(Move.COMPLETE)
    await publisher.publish_within(0.01)
    publisher._run = stage.backend.arun
    stage.count(Move.COMPLETE)
    await publisher.publish_within(0.5)
    assert stage.read().total.completed == 2


async def test_nothing_is_written_of_nothing():
    """An idle process has no part in it."""
    stage = Stage()
    stage.worker()

    async def fails(_verb):
        raise AssertionError("a call")

    stage.workers["w1"][1]._run = fails
    await stage.publish()
    assert stage.fold().parts == 0
