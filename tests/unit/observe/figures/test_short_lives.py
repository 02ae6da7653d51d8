"""Of a worker that is killed young, at least half of what it did is in the figures."""

import asyncio

import pytest

from figures_stage import Stage
from simulator.loop import VirtualLoop
from standfast.model.records import Kind
from standfast.model.states import Move
from standfast.observe.figures.publisher import EVERY, FIRST

JOB = 0.01
"""Seconds that a job takes."""


async def live(stage: Stage, seconds: float) -> int:
    """Complete jobs, one after another, until the worker is killed; return how many."""
    stage.worker()
    [(_, publisher)] = stage.workers.values()
    publishing = asyncio.create_task(publisher.run())
    loop, jobs = asyncio.get_running_loop(), 0
    killed_at = loop.time() + seconds
    while loop.time() < killed_at:
        await asyncio.sleep(JOB)
        stage.count(Move.COMPLETE)
        jobs += 1
    publishing.cancel()
    return jobs


@pytest.mark.parametrize("seconds", [0.6, 0.95, 1.9, 3.9, 7.9, 15.9, 30.9, 100.0])
def test_at_least_half_is_told(seconds):
    stage = Stage()
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        jobs = runner.run(live(stage, seconds))
    told = stage.read().total.completed
    assert jobs - told <= EVERY / JOB + 1
    assert told >= jobs / 2 - 1


def test_a_long_life_is_told_every_fifteen_seconds():
    """In a quarter of an hour a few times more often than that."""
    stage = Stage()
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(live(stage, 900.0))
    parts = len(stage.backend.run(stage.verbs.records(Kind.TALLY)))
    assert 900 / EVERY <= parts <= 900 / EVERY + EVERY / FIRST / 5
