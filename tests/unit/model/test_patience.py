"""Trying again: an enqueue with retry_for stores its jobs once; pauses grow, and keep nobody in step."""

import asyncio
from datetime import timedelta
from random import Random

import pytest

from standfast import ConfigurationError, Standfast
from standfast.errors import StoreError, StoreFullError, StoreUnavailableError
from standfast.model.backoff import FIRST_PAUSE, LONGEST_PAUSE, RetryDelays
from standfast.model.clock import SystemClock
from standfast.stores.memory.store import MemoryBackend
from standfast.stores.refusals import in_doubt
from standfast.stores.values import JobFilter
from standfast.stores.waiter import Waiter

FOREVER = 60
"""Seconds that are enough for any test that succeeds."""


MAY_BE_STORED = (
    "it is not known whether job {0} was stored; to enqueue it again without a second job, use"
    " options(job_id='{0}')"
)


class Unreliable(MemoryBackend):
    """A store that refuses some calls, or answers and the answer is lost."""

    def __init__(self):
        super().__init__(SystemClock())
        self.troubles = []
        self.calls = 0

    def run(self, verb):
        trouble = self.troubles.pop(0) if self.troubles and verb.name == "enqueue" else None
        self.calls += verb.name == "enqueue"
        if trouble == "lost":
            super().run(verb)
            raise in_doubt(StoreUnavailableError("the answer was lost"))
        if trouble is not None:
            raise trouble
        return super().run(verb)

    async def arun(self, verb):
        return self.run(verb)


@pytest.fixture
def store():
    return Unreliable()


@pytest.fixture
def app(store):
    app = Standfast("memory://")
    with app.elsewhere(store, Waiter(store), SystemClock()):
        yield app


@pytest.fixture
def add(app):
    @app.task
    def add(a: int) -> int:
        return a

    return add


@pytest.fixture(params=["enqueue", "aenqueue", "enqueue_many", "aenqueue_many"])
def enqueue(request):
    """Enqueue one job in each of the four ways, and return its handle."""

    def enqueue(task):
        many = request.param.endswith("many")
        returned = getattr(task, request.param)([{"a": 1}] if many else 1)
        answer = asyncio.run(_awaited(returned)) if request.param.startswith("a") else returned
        return answer[0] if many else answer

    return enqueue


async def _awaited(coroutine):
    return await coroutine


def stored(app):
    return [job.id for job in app.call(app.verbs.list_jobs(JobFilter())).jobs]


TROUBLES = [
    [StoreUnavailableError("away")],
    [StoreFullError("full"), StoreUnavailableError("away"), StoreUnavailableError("away")],
    ["lost"],
    ["lost", "lost", StoreUnavailableError("away")],
]


@pytest.mark.parametrize("troubles", TROUBLES, ids=str)
def test_an_enqueue_goes_on_trying_and_stores_its_job_once(app, add, store, enqueue, troubles):
    """Whichever try succeeds, answers lost included: there is one job, and it is that of the handle."""
    store.troubles = list(troubles)
    handle = enqueue(add.options(retry_for=timedelta(seconds=FOREVER)))
    assert handle.created
    assert stored(app) == [handle.id]
    assert store.calls == len(troubles) + 1


def test_without_retry_for_the_first_error_is_raised(app, add, store, enqueue):
    store.troubles = [StoreUnavailableError("away")]
    with pytest.raises(StoreUnavailableError, match="away"):
        enqueue(add)
    assert store.calls == 1
    assert stored(app) == []


def test_when_the_time_is_over_the_last_error_is_raised(add, store, enqueue):
    store.troubles = [StoreUnavailableError(f"away {number}") for number in range(100)]
    with pytest.raises(StoreUnavailableError, match=r"away [1-9]"):
        enqueue(add.options(retry_for=0.1))
    assert 2 <= store.calls < 50


@pytest.mark.parametrize("troubles", [["lost"], ["lost", *[StoreUnavailableError("away")] * 100]], ids=len)
def test_who_hears_the_last_error_hears_of_an_answer_that_was_lost_before(app, add, store, enqueue, troubles):
    """The error of a later try says by itself that nothing is stored; and what to do to have it once."""
    store.troubles = list(troubles)
    with pytest.raises(StoreUnavailableError, match="; whether this call was stored is not known") as raised:
        enqueue(add.options(retry_for=0.1 if len(troubles) > 1 else 0))
    assert raised.value.in_doubt
    assert raised.value.__notes__[0] == MAY_BE_STORED.format(*stored(app))


async def test_who_is_cancelled_between_two_tries_is_told_that_it_may_be_stored(app, add, store):
    """The first try may have stored it, and only its answer was lost."""
    store.troubles = ["lost"]
    enqueueing = asyncio.create_task(add.options(retry_for=FOREVER).aenqueue(1))
    await asyncio.sleep(0)
    assert store.calls == 1
    enqueueing.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await enqueueing
    (job_id,) = [job.id for job in (await app.acall(app.verbs.list_jobs(JobFilter()))).jobs]
    assert caught.value.__notes__ == [MAY_BE_STORED.format(job_id)]


def test_what_does_not_pass_is_raised_at_once(add, store, enqueue):
    store.troubles = [StoreError("no such table")]
    with pytest.raises(StoreError, match="no such table"):
        enqueue(add.options(retry_for=FOREVER))
    assert store.calls == 1


def test_the_app_says_it_for_every_enqueue_and_an_option_says_otherwise(store, enqueue):
    app = Standfast("memory://", retry_for=FOREVER)

    @app.task
    def add(a: int) -> int:
        return a

    with app.elsewhere(store, Waiter(store), SystemClock()):
        store.troubles = [StoreUnavailableError("away")]
        assert enqueue(add).created
        store.troubles = [StoreUnavailableError("away")]
        with pytest.raises(StoreUnavailableError):
            enqueue(add.options(retry_for=0))


def test_it_is_refused_together_with_a_transaction_of_the_callers_own(add):
    with pytest.raises(ConfigurationError, match=r"retry_for and tx are both given.*begin anew"):
        add.options(tx=object(), retry_for=5)


@pytest.mark.parametrize("span", [-1, float("inf"), float("nan"), "5", True], ids=repr)
def test_a_span_that_cannot_be_meant_is_refused(add, span):
    with pytest.raises(ConfigurationError, match="retry_for must be"):
        add.options(retry_for=span)


def test_pauses_grow_to_the_longest_and_begin_anew_after_an_answer():
    pauses = RetryDelays(Random(1))
    first = [pauses.next() for _ in range(20)]
    expected = [min(FIRST_PAUSE * 2**tries, LONGEST_PAUSE) for tries in range(20)]
    assert all(longest / 2 <= pause <= longest for pause, longest in zip(first, expected, strict=True))
    pauses.reset()
    assert pauses.next() <= FIRST_PAUSE


def test_pauses_of_two_are_not_the_same():
    mine, others = RetryDelays(Random(1)), RetryDelays(Random(2))
    assert all(mine.next() != others.next() for _ in range(20))
