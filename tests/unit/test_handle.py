"""A handle tells what became of its job: the typed result, or an error that says why there is none."""

import asyncio
import json
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from standfast import (
    Cancellation,
    ConfigurationError,
    JobCancelledError,
    JobDeadError,
    JobHandle,
    JobNotFoundError,
    ResultTimeoutError,
    Standfast,
    State,
    new_job_id,
)
from standfast.errors import ResultExpiredError, StoreError, StoreUnavailableError
from standfast.model.codec import encode_result
from standfast.model.crash import Death, DeathKind
from standfast.model.job import ClaimRef, Ending, Failure, JobAction, Progress
from standfast.model.states import Move
from standfast.stores.contract import change_job, count_states
from standfast.stores.values import ClaimRequest, WorkerInfo
from standfast.testing.clock import FakeClock

CALLS = count(1)


@dataclass
class Receipt:
    number: int


@pytest.fixture(params=["memory://", "sqlite:///jobs.db"])
def app(request, tmp_path, monkeypatch):
    monkeypatch.delenv("STANDFAST_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    with Standfast(request.param) as app:
        yield app


@pytest.fixture
def pay(app):
    @app.task(max_attempts=1)
    def pay(amount: int) -> Receipt:
        return Receipt(amount)

    return pay


def claim(app: Standfast) -> ClaimRef:
    """Claim the one job that waits."""
    app.call(app.verbs.register(WorkerInfo("w", "s", "host", 1, timedelta(seconds=15))))
    (claim,) = app.call(app.verbs.claim(ClaimRequest("w", next(CALLS), limit=1))).jobs
    return claim.ref


def end(app: Standfast, ref: ClaimRef, move: Move, **ending: object) -> None:
    """End a claim."""
    app.call(app.verbs.finish("w", [Ending(ref, move, **ending)]))


def finish(app: Standfast, move: Move, **ending: object) -> None:
    """Claim the one job that waits and end it."""
    end(app, claim(app), move, **ending)


def until_watched(app: Standfast, watches: int = 1) -> None:
    """Return once so many wait."""
    while app.waiter.watching < watches:
        time.sleep(0.001)


def results_of(handle: JobHandle) -> list:
    """Return how to wait for the result, sync and async."""
    return [lambda timeout=5: handle.result(timeout), lambda timeout=5: asyncio.run(handle.aresult(timeout))]


def test_the_result_is_what_the_return_annotation_says(app, pay):
    handle = pay.enqueue(7)
    finish(app, Move.COMPLETE, result=encode_result(Receipt(7)))
    for result in results_of(handle):
        assert result() == Receipt(7)


def test_a_job_that_completed_without_a_result_gives_none(app):
    @app.task
    def nothing() -> None: ...

    handle = nothing.enqueue()
    finish(app, Move.COMPLETE)
    assert handle.result(timeout=0) is None


@pytest.mark.parametrize("way", [0, 1], ids=["sync", "async"])
def test_waiting_ends_when_the_job_does(app, pay, way):
    result = results_of(pay.enqueue(7))[way]
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(result, 30)
        until_watched(app)
        finish(app, Move.COMPLETE, result=encode_result(Receipt(7)))
        assert waiting.result() == Receipt(7)


def test_a_dead_job_tells_the_error_that_killed_it(app, pay):
    handle = pay.enqueue(7)
    trace = 'Traceback (most recent call last):\n  File "till.py", line 3, in pay\nValueError: card: declined\n'
    finish(app, Move.DIE, failure=Failure("ValueError", "card: declined", trace))
    for result in results_of(handle):
        with pytest.raises(
            JobDeadError, match=rf"{handle.id} \(pay\) is dead after 1 attempt: ValueError: card: declined"
        ) as dead:
            result()
        assert (dead.value.failure_type, dead.value.failure_message) == ("ValueError", "card: declined")
        assert dead.value.remote_traceback == trace
        shown = "".join(traceback.format_exception(dead.value))
        assert 'File "till.py", line 3, in pay' in shown
        assert shown.index("till.py") < shown.index("JobDeadError")


def test_the_traceback_is_that_of_the_last_error(app, pay):
    """What an earlier attempt raised did not kill the job, and what killed it may have no traceback."""
    handle = pay.options(max_attempts=2).enqueue(7)
    finish(app, Move.RETRY, failure=Failure("ValueError", "first", "Traceback: first"))
    finish(app, Move.DIE, failure=Failure("TimeoutError", "ran longer than its timeout of 5 s"))
    with pytest.raises(JobDeadError) as dead:
        handle.result(0)
    assert (dead.value.failure_type, dead.value.remote_traceback) == ("TimeoutError", "")
    assert dead.value.__cause__ is None


def test_a_death_without_an_exception_has_no_type(app, pay):
    handle = pay.enqueue(7)
    ref = claim(app)
    app.call(app.verbs.start("w", [(ref, app.clock.now())]))
    app.call(app.verbs.bury("w", Death(DeathKind.CRASHED, frozenset({ref}), "killed by SIGSEGV: see its log")))
    with pytest.raises(JobDeadError, match="killed by SIGSEGV") as dead:
        handle.result(0)
    assert (dead.value.failure_type, dead.value.failure_message) == (None, "killed by SIGSEGV: see its log")


@pytest.mark.parametrize("error", [JobDeadError("so", failure_type="E"), JobCancelledError("so", reason="why")])
def test_errors_can_be_copied(error):
    assert vars(copy(error)) == vars(error)
    assert str(copy(error)) == "so"


def test_a_cancelled_job_tells_the_reason(app, pay):
    handle = pay.enqueue(7)
    finish(app, Move.CANCEL, reason="order withdrawn")
    for result in results_of(handle):
        with pytest.raises(JobCancelledError, match="was cancelled: order withdrawn") as cancelled:
            result()
        assert cancelled.value.reason == "order withdrawn"


def test_a_result_that_is_kept_no_longer_says_so(tmp_path):
    clock = FakeClock()
    with Standfast(f"sqlite:///{tmp_path}/jobs.db", clock=clock) as app:
        handle = app.task(lambda_free).enqueue()
        finish(app, Move.COMPLETE, result=b"7", keep_result=timedelta(hours=1))
        clock.advance(3599)
        assert handle.result(0) == 7
        clock.advance(1)
        for result in results_of(handle):
            with pytest.raises(ResultExpiredError, match=r"until 2030-01-02 04:04:05 UTC: .* keep_result"):
                result()


def lambda_free() -> int:
    """Serve as a task."""
    return 7


def test_progress_is_told_until_the_job_ends(app, pay):
    handle = pay.enqueue(7)
    ref = claim(app)

    def say(done: float) -> None:
        app.call(app.verbs.progress("w", [(ref, Progress(done, 3))]))

    def follow_sync() -> list[Progress]:
        heard = []
        for progress in handle.progress(timeout=30):
            heard.append(progress)
            steps[progress.done]()
        return heard

    async def follow() -> list[Progress]:
        return [progress async for progress in handle.aprogress(timeout=30)]

    steps = {1: lambda: say(2), 2: lambda: say(3), 3: lambda: end(app, ref, Move.COMPLETE)}
    say(1)
    assert follow_sync() == [Progress(1, 3), Progress(2, 3), Progress(3, 3)]
    assert asyncio.run(follow()) == [Progress(3, 3)], "the last word of a job that has ended"


def test_a_job_without_progress_ends_the_stream(app, pay):
    handle = pay.enqueue(7)
    finish(app, Move.COMPLETE)
    assert list(handle.progress(timeout=5)) == []


def test_progress_that_takes_too_long_is_a_timeout(pay):
    handle = pay.enqueue(7)

    async def follow() -> None:
        async for _ in handle.aprogress(timeout=0.02):
            pytest.fail("there is none")

    with pytest.raises(ResultTimeoutError, match=r"is still ready after 0.02 s"):
        list(handle.progress(timeout=0.02))
    with pytest.raises(ResultTimeoutError):
        asyncio.run(follow())


def test_time_is_the_apps(monkeypatch):
    """A test's clock ends a wait, however little real time has passed."""
    monkeypatch.delenv("STANDFAST_URL", raising=False)
    clock = FakeClock()
    with Standfast("memory://", clock=clock) as app, ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(app.task(lambda_free).enqueue().result, 3600)
        until_watched(app)
        clock.advance(3600)
        with pytest.raises(ResultTimeoutError, match="after 3600 s"):
            waiting.result(30)


@pytest.mark.parametrize("way", [0, 1], ids=["sync", "async"])
def test_a_store_that_is_away_is_waited_for(tmp_path, monkeypatch, way):
    """While it lasts a wait may run out, and says what is wrong; who waits on has the result in the end."""
    monkeypatch.delenv("STANDFAST_URL", raising=False)
    database, aside = tmp_path / "jobs.db", tmp_path / "aside"
    with Standfast(f"sqlite:///{database}") as app, ThreadPoolExecutor(1) as thread:
        result = results_of(app.task(lambda_free).enqueue())[way]
        finish(app, Move.COMPLETE, result=b"7")
        database.rename(aside)
        with pytest.raises(ResultTimeoutError, match=r"no word of job .* after 0\.05 s: .*jobs\.db") as away:
            result(0.05)
        assert isinstance(away.value.__cause__, StoreUnavailableError)
        waiting = thread.submit(result, 30)
        until_watched(app)
        aside.rename(database)
        assert waiting.result() == 7


def test_a_store_that_is_away_when_the_result_is_read_is_asked_again(app, pay):
    handle = pay.enqueue(7)
    finish(app, Move.COMPLETE, result=encode_result(Receipt(7)))
    tries = []

    class Hiccup:
        """The app, with a store that is away for a moment."""

        verbs, clock, waiter = app.verbs, app.clock, app.waiter

        def call(self, verb):
            tries.append(verb.name)
            if tries == ["get"]:
                verb.steps.close()
                raise StoreUnavailableError("locked")
            return app.call(verb)

    assert JobHandle(handle.id, "pay", Hiccup(), Receipt).result(30) == Receipt(7)
    assert tries == ["get", "get"]


async def test_a_cancelled_wait_is_forgotten(app, pay):
    waiting = asyncio.create_task(pay.enqueue(7).aresult())
    await asyncio.to_thread(until_watched, app)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert app.waiter.watching == 0


@pytest.mark.parametrize("way", [0, 1], ids=["sync", "async"])
def test_closing_the_app_ends_the_wait(app, pay, way):
    result = results_of(pay.enqueue(7))[way]
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(result, None)
        until_watched(app)
        app.close()
        with pytest.raises(StoreError, match="the app was closed"):
            waiting.result(30)


def test_a_handle_is_made_again_from_its_id(app, pay):
    job_id = pay.enqueue(7).id
    finish(app, Move.COMPLETE, result=encode_result(Receipt(7)))
    assert pay.handle(job_id).result(5) == Receipt(7)
    assert app.handle(job_id).result(5) == {"number": 7}
    assert app.handle(job_id) == pay.handle(job_id)
    with pytest.raises(JobNotFoundError):
        app.handle(new_job_id()).result(5)


def test_a_job_that_is_requeued_meanwhile_is_waited_for_again(app, pay):
    """It was seen dead, and lives again when its end is read: what counts is the end that it comes to."""
    handle = pay.enqueue(7)
    finish(app, Move.DIE, failure=Failure("ValueError", "declined"))
    revived = threading.Event()

    class Meddling:
        """The app, while someone requeues the job just before it is read."""

        verbs, clock, waiter = app.verbs, app.clock, app.waiter

        def call(self, verb):
            if verb.name == "get" and not revived.is_set():
                app.call(change_job(app.verbs, JobAction.RETRY, handle.id))
                revived.set()
            return app.call(verb)

    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(JobHandle(handle.id, "pay", Meddling(), Receipt).result, 30)
        revived.wait(30)
        finish(app, Move.COMPLETE, result=encode_result(Receipt(8)))
        assert waiting.result() == Receipt(8)


@pytest.mark.parametrize("timeout", [0, 0.02])
def test_a_wait_that_runs_out_says_so_and_leaves_the_job(pay, timeout):
    handle = pay.enqueue(7)
    for result in results_of(handle):
        with pytest.raises(ResultTimeoutError, match=f"is still ready after {timeout:g} s; it goes on"):
            result(timeout)
    assert handle.status() is State.READY


@pytest.mark.parametrize("timeout", ["5", timedelta(seconds=5), True])
def test_a_timeout_is_a_number(pay, timeout):
    handle = pay.enqueue(7)
    said = "timeout must be a number of seconds, or None to wait for ever, not "
    with pytest.raises(ConfigurationError, match=said):
        handle.result(timeout)
    with pytest.raises(ConfigurationError, match=said):
        asyncio.run(handle.aresult(timeout))
    with pytest.raises(ConfigurationError, match=said):
        next(handle.progress(timeout))


def test_a_timeout_is_a_python_timeout_too(pay):
    with pytest.raises(TimeoutError):
        pay.enqueue(7).result(timeout=0)


def test_the_job_and_its_status_can_be_asked_for(pay):
    handle = pay.enqueue(7)
    assert handle.job() == asyncio.run(handle.ajob())
    assert handle.job().task == "pay"
    assert handle.status() is asyncio.run(handle.astatus()) is State.READY


def test_cancelling_a_waiting_job_is_done_at_once(app, pay):
    for cancel in (JobHandle.cancel, lambda handle: asyncio.run(handle.acancel())):
        handle = pay.enqueue(7)
        assert cancel(handle) is Cancellation.CANCELLED
        assert cancel(handle) is Cancellation.TOO_LATE
        with pytest.raises(JobCancelledError, match="was cancelled: requested"):
            handle.result(timeout=0)
    assert app.call(count_states(app.verbs))[State.CANCELLED] == 2


def test_a_job_that_is_not_there_is_an_error_everywhere(app):
    handle = JobHandle[int](new_job_id(), "pay", app)
    for ask in (handle.job, handle.status, handle.cancel, *results_of(handle)):
        with pytest.raises(JobNotFoundError, match=handle.id):
            ask()
    with pytest.raises(JobNotFoundError, match="or the transaction that enqueued it has not committed"):
        handle.job()


def test_handles_are_values_that_show_no_store(app, pay):
    handle = pay.enqueue(7)
    assert handle == JobHandle(handle.id, "pay", app)
    assert repr(handle) == f"JobHandle(id='{handle.id}', task='pay', created=True)"
    with pytest.raises(AttributeError):
        handle.id = "other"


@pytest.mark.parametrize("path", ["plain", "typed", "awaited", "listed"])
async def test_an_endpoint_of_fastapi_may_return_a_handle(app, pay, path):
    """Its id and its state now, whether the endpoint says what it returns or not."""
    web = FastAPI()

    @web.get("/plain")
    def plain():
        return pay.enqueue(1)

    @web.get("/typed")
    def typed() -> JobHandle[Receipt]:
        return pay.options(delay=60).enqueue(2)

    @web.get("/awaited")
    async def awaited() -> JobHandle[Any]:
        return await pay.aenqueue(3)

    @web.get("/listed")
    async def listed() -> dict[str, list[JobHandle[Receipt]]]:
        return {"jobs": await pay.aenqueue_many([{"amount": 4}])}

    async with httpx.AsyncClient(transport=httpx.ASGITransport(web), base_url="http://web") as client:
        answer = (await client.get(f"/{path}")).json()
        described = (await client.get("/openapi.json")).json()
    told = answer["jobs"][0] if path == "listed" else answer
    assert told == {"id": told["id"], "state": "scheduled" if path == "typed" else "ready"}
    assert app.handle(told["id"]).job().task == "pay"
    if path != "plain":
        assert '"state"' in json.dumps(described["paths"][f"/{path}"]["get"]["responses"]["200"])
