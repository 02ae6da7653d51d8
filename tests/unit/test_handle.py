"""A handle tells what became of its job: the typed result, or an error that says why there is none."""

import asyncio
import threading
from dataclasses import FrozenInstanceError, dataclass
from datetime import timedelta

import pytest

from holdfast import (
    Cancellation,
    Holdfast,
    JobCancelledError,
    JobDeadError,
    JobHandle,
    JobNotFoundError,
    ResultTimeoutError,
    State,
    new_job_id,
)
from holdfast.codec import encode_result
from holdfast.core.job import Ending, Failure
from holdfast.core.states import Move
from holdfast.handle import _pauses
from holdfast.store.protocol import ClaimRequest, WorkerInfo
from holdfast.testing.clock import FakeClock


@dataclass
class Receipt:
    number: int


@pytest.fixture
def app(monkeypatch):
    monkeypatch.delenv("HOLDFAST_URL", raising=False)
    with Holdfast("memory://") as app:
        yield app


@pytest.fixture
def pay(app):
    @app.task(max_attempts=1)
    def pay(amount: int) -> Receipt:
        return Receipt(amount)

    return pay


def finish(app: Holdfast, move: Move, **ending: object) -> None:
    """Claim the one job that waits and end it."""
    app.call(app.verbs.register(WorkerInfo("w", "s", "host", 1, timedelta(seconds=15))))
    (claim,) = app.call(app.verbs.claim(ClaimRequest("w", 1, limit=1))).jobs
    app.call(app.verbs.finish("w", [Ending(claim.ref, move, **ending)]))


def results_of(handle: JobHandle) -> list:
    """Return how to wait for the result, sync and async."""
    return [
        lambda timeout=5: handle.result(timeout),
        lambda timeout=5: asyncio.run(handle.aresult(timeout)),
    ]


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


def test_waiting_ends_when_the_job_does(app, pay):
    handle = pay.enqueue(7)
    looked = threading.Event()

    class Watched:
        """The app, telling when the waiting has begun."""

        verbs = app.verbs
        clock = app.clock

        def call(self, verb):
            looked.set()
            return app.call(verb)

    def end():
        looked.wait()
        finish(app, Move.COMPLETE, result=encode_result(Receipt(7)))

    ending = threading.Thread(target=end)
    ending.start()
    waiting = JobHandle(handle.id, handle.task, Watched(), Receipt)
    assert waiting.result() == Receipt(7)
    ending.join()


def test_a_dead_job_tells_the_error_that_killed_it(app, pay):
    handle = pay.enqueue(7)
    finish(app, Move.DIE, failure=Failure("ValueError", "card declined"))
    for result in results_of(handle):
        with pytest.raises(JobDeadError, match=rf"{handle.id} \(pay\) is dead .*ValueError: card declined"):
            result()


def test_a_cancelled_job_tells_the_reason(app, pay):
    handle = pay.enqueue(7)
    finish(app, Move.CANCEL, reason="order withdrawn")
    for result in results_of(handle):
        with pytest.raises(JobCancelledError, match="was cancelled: order withdrawn"):
            result()


@pytest.mark.parametrize("timeout", [0, 0.02])
def test_a_wait_that_runs_out_says_so_and_leaves_the_job(pay, timeout):
    handle = pay.enqueue(7)
    for result in results_of(handle):
        with pytest.raises(ResultTimeoutError, match=f"is still ready after {timeout:g} s; it goes on"):
            result(timeout)
    assert handle.status() is State.READY


def test_a_timeout_is_a_python_timeout_too(pay):
    with pytest.raises(TimeoutError):
        pay.enqueue(7).result(timeout=0)


def test_looks_become_rarer_and_stop_at_the_deadline():
    clock = FakeClock()
    slept = []
    for pause in _pauses(clock, 2.0):
        slept.append(pause)
        clock.advance(pause)
    assert slept[0] == pytest.approx(0.01)
    assert max(slept) == pytest.approx(0.25)
    assert slept[:-1] == sorted(slept[:-1])
    assert sum(slept) == pytest.approx(2.0)


def test_without_a_timeout_the_looks_never_stop():
    pauses = _pauses(FakeClock(), None)
    assert [round(next(pauses), 3) for _ in range(20)][-1] == 0.25


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
    assert app.call(app.verbs.count())[State.CANCELLED] == 2


def test_a_job_that_is_not_there_is_an_error_everywhere(app):
    handle = JobHandle[int](new_job_id(), "pay", app)
    for ask in (handle.job, handle.status, handle.cancel, *results_of(handle)):
        with pytest.raises(JobNotFoundError, match=handle.id):
            ask()


def test_handles_are_values_that_show_no_store(app, pay):
    handle = pay.enqueue(7)
    assert handle == JobHandle(handle.id, "pay", app)
    assert repr(handle) == f"JobHandle(id='{handle.id}', task='pay')"
    with pytest.raises(FrozenInstanceError):
        handle.id = "other"
