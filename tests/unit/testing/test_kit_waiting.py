"""Nobody waits for ever for a job that nobody runs."""

import asyncio

import pytest

from standfast import JobDeadError, JobNotFoundError, ResultTimeoutError


@pytest.fixture
def work(app):
    @app.task
    async def work(word: str) -> str:
        return word.upper()

    return work


@pytest.mark.parametrize("timeout", [None, 0, 5])
def test_a_wait_for_a_job_that_was_not_run_is_over_at_once(kit, work, timeout):
    handle = work.enqueue("hi")
    with pytest.raises(ResultTimeoutError):
        handle.result(timeout)
    kit.drain()
    assert handle.result(timeout) == "HI"


@pytest.mark.usefixtures("kit")
def test_the_error_names_the_remedy(work):
    with pytest.raises(ResultTimeoutError, match=r"is ready.*kit\.drain\(\) first"):
        work.enqueue("hi").result()
    with pytest.raises(ResultTimeoutError, match=r"is scheduled.*kit\.drain_all\(\)"):
        work.options(delay=60).enqueue("hi").result()


def test_what_is_wrong_is_raised_as_ever(app, kit):
    @app.task(max_attempts=1)
    def broken() -> None:
        raise KeyError("gone")

    handle = broken.enqueue()
    kit.drain()
    with pytest.raises(JobDeadError, match="gone"):
        handle.result()
    with pytest.raises(JobNotFoundError):
        app.handle("00000000-0000-7000-8000-000000000000").result()


def test_async_code_may_wait_while_a_drain_runs(kit, work):
    """It hears of the end as soon as there is one, and of the end of the drain where there is none."""

    async def test():
        soon, late = await work.aenqueue("hi"), await work.options(delay=60).aenqueue("hi")
        waits = [asyncio.create_task(handle.aresult(5)) for handle in (soon, late)]
        await kit.adrain()
        result, error = await asyncio.gather(*waits, return_exceptions=True)
        assert result == "HI"
        assert isinstance(error, ResultTimeoutError)

    asyncio.run(test())


@pytest.mark.parametrize("kind", ["plain", "on_loop"])
def test_a_handler_cannot_wait_for_a_job_that_runs_after_it(app, kit, work, kind):
    @app.task
    def plain() -> None:
        work.enqueue("hi").result()

    @app.task
    async def on_loop() -> None:
        await (await work.aenqueue("hi")).aresult()

    app.tasks[kind].enqueue()
    with pytest.raises(ResultTimeoutError, match="one job after another"):
        kit.drain(raising=True)
