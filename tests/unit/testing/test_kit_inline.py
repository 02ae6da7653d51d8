"""Inline, a job has run when its enqueue returns, wherever that was."""

import asyncio

import pytest

from standfast import Standfast, State
from standfast.model.job import JobAction
from standfast.stores.contract import change_job


@pytest.fixture
def app():
    app = Standfast("memory://")

    @app.task
    def plain_leaf(word: str) -> str:
        return word.upper()

    @app.task
    async def leaf(word: str) -> str:
        return word.upper()

    @app.task
    def plain_root(word: str) -> list[str]:
        return [plain_leaf.enqueue(word).result(), leaf.enqueue(word).result()]

    @app.task
    async def root(word: str) -> list[str]:
        blocking = [plain_leaf.enqueue(word).result(), leaf.enqueue(word).result()]
        waiting = [await (await task.aenqueue(word)).aresult() for task in (plain_leaf, leaf)]
        return blocking + waiting

    return app


@pytest.mark.parametrize(("name", "times"), [("plain_root", 2), ("root", 4)])
def test_from_sync_code(app, kit, name, times):
    """And what it enqueues has run when that enqueue returns."""
    with kit.inline():
        assert app.tasks[name].enqueue("hi").result() == ["HI"] * times


@pytest.mark.parametrize(("name", "times"), [("plain_root", 2), ("root", 4)])
def test_from_async_code(app, kit, name, times):
    async def test():
        with kit.inline():
            assert await (await app.tasks[name].aenqueue("hi")).aresult() == ["HI"] * times
            assert app.tasks[name].enqueue("hi").result() == ["HI"] * times

    asyncio.run(test())


def test_many_at_once(app, kit):
    with kit.inline():
        handles = app.tasks["leaf"].enqueue_many([{"word": "a"}, {"word": "b"}])
        assert [handle.result() for handle in handles] == ["A", "B"]


def test_only_within_the_block(app, kit):
    with kit.inline():
        pass
    assert app.tasks["leaf"].enqueue("hi").status() is State.READY


def test_a_delayed_job_waits_for_its_time(app, kit):
    with kit.inline():
        handle = app.tasks["leaf"].options(delay=5).enqueue("hi")
        assert handle.status() is State.SCHEDULED
    kit.drain_all()
    assert handle.result() == "HI"


def test_a_failure_is_the_jobs_own_unless_it_should_raise(app, kit):
    @app.task
    def broken() -> None:
        raise KeyError("gone")

    with kit.inline():
        assert broken.enqueue().status() is State.SCHEDULED
    with kit.inline(raising=True), pytest.raises(KeyError, match="gone"):
        broken.enqueue()


def test_a_dead_job_that_is_requeued_runs_at_once(app, kit):
    seen = []

    @app.task(max_attempts=1)
    def once() -> None:
        seen.append(1)
        if len(seen) == 1:
            raise KeyError

    handle = once.enqueue()
    kit.drain()
    with kit.inline():
        app.call(change_job(app.verbs, JobAction.RETRY, handle.id))
    assert handle.status() is State.COMPLETED


@pytest.mark.parametrize("raising", [False, True])
def test_a_job_that_enqueues_itself_for_ever_is_an_error(app, kit, raising):
    @app.task
    def again() -> None:
        again.enqueue()

    with kit.inline(raising=raising), pytest.raises(AssertionError, match="25 deep, and there is no end"):
        again.enqueue()
