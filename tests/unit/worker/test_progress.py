"""What handlers say of their progress: cheaply, without secrets, and to the last word."""

import asyncio
import threading
from datetime import UTC, datetime
from functools import partial
from typing import Annotated

import pytest
from stage import Stage, play, working

from standfast import Context, Secret, Standfast
from standfast.errors import ArgumentsError, StoreUnavailableError
from standfast.events import JobProgressed
from standfast.model.job import NOTE_LENGTH, Claim, ClaimRef, Progress
from standfast.model.secrets import MASK
from standfast.model.states import State
from standfast.testing.clock import FakeClock
from standfast.worker.control import Control
from standfast.worker.isolation.executor import PACE, Pace
from standfast.worker.lease import Lease

CLAIM = Claim(ClaimRef("j1", 1), "pay", 1, b"", "money", 0, datetime(2030, 1, 1, tzinfo=UTC), 0, 0, 5)


def words_sent(stage: Stage) -> list[str]:
    """Count the calls by which progress reaches the store from now on."""
    calls, verb = [], stage.backend.verbs.progress

    def noted(worker, reports):
        calls.extend(progress.note for _, progress in reports)
        return verb(worker, reports)

    stage.backend.verbs.progress = noted
    return calls


def note_of(text: str) -> str | None:
    """Return what is passed on of a note."""
    heard: list[Progress] = []
    control = Control(CLAIM, Lease(FakeClock(), 10.0, 1.0, 3.0), lambda _, progress: heard.append(progress))
    control.report(Progress(1, None, text))
    return heard[0].note


def test_a_note_is_one_line_that_is_not_too_long():
    assert note_of("reading\n  row \x1b[2J7") == "reading row �[2J7"
    assert note_of(" ") is None
    assert note_of("a" * NOTE_LENGTH) == "a" * NOTE_LENGTH
    assert note_of("a" * (NOTE_LENGTH + 1)) == "a" * (NOTE_LENGTH - 1) + "…"


def test_a_note_has_no_secrets_however_long_it_is():
    """They are taken out before it is cut: a half of one would not be found."""
    app = Standfast("memory://")

    @app.task
    async def pay(ctx: Context, token: Annotated[str, Secret]) -> None:
        ctx.progress(1, note=f"{'a' * (NOTE_LENGTH - 10)} {token}")
        await asyncio.sleep(1)

    async def scenario():
        async with working(Stage(app)) as stage:
            job = await stage.settled(pay.enqueue(token="hunter2-and-more"))
            assert job.progress.note == f"{'a' * (NOTE_LENGTH - 10)} {MASK}"
            (told,) = (event for event in stage.told if isinstance(event, JobProgressed))
            assert told.progress == job.progress

    play(scenario)


def test_a_storm_of_words_costs_a_write_for_each_round_and_the_last_word_arrives():
    app = Standfast("memory://")

    @app.task
    async def count(ctx: Context) -> None:
        for number in range(100):
            for part in range(100):
                ctx.progress(number, 100, f"{number}.{part}")
            await asyncio.sleep(0.01)
        ctx.progress(100, 100, "all of it")

    async def scenario():
        async with working(Stage(app)) as stage:
            sent = words_sent(stage)
            job = await stage.settled(count.enqueue())
            assert (job.state, job.progress) == (State.COMPLETED, Progress(100, 100, "all of it"))
            assert len(sent) <= 12

    play(scenario)


@pytest.mark.parametrize("amount", ["half", -1, float("nan"), float("inf"), [1]])
def test_what_is_no_amount_is_refused(amount):
    """With the name of what is wrong, and what it must be."""
    heard = []
    control = Control(CLAIM, Lease(FakeClock(), 10.0, 1.0, 3.0), lambda _, progress: heard.append(progress))
    ctx = Context(CLAIM, control)
    with pytest.raises(ArgumentsError, match="progress done must be a finite number, zero or more, not "):
        ctx.progress(amount)
    with pytest.raises(ArgumentsError, match="progress total must be a finite number, zero or more, not "):
        ctx.progress(1, amount)
    assert heard == []


def test_a_job_that_is_over_at_once_costs_no_write_of_its_progress():
    app = Standfast("memory://")

    @app.task
    async def count(ctx: Context) -> None:
        ctx.progress(1, 1, "done")

    async def scenario():
        async with working(Stage(app)) as stage:
            sent = words_sent(stage)
            await stage.settled(count.enqueue())
            assert sent == []
            assert [event.progress.note for event in stage.told if isinstance(event, JobProgressed)] == ["done"]

    play(scenario)


async def _refused() -> None:
    raise StoreUnavailableError("away")


@pytest.mark.parametrize("meet", [_refused, partial(asyncio.sleep, 1_000)], ids=["refused", "unanswered"])
def test_the_last_word_holds_nobody_up_where_the_store_does_not_take_it(meet):
    app = Standfast("memory://")

    @app.task
    async def count(ctx: Context) -> None:
        await asyncio.sleep(1)
        ctx.progress(1, 1, "done")

    async def scenario():
        async with working(Stage(app)) as stage:
            plain = stage.backend.arun

            async def arun(verb):
                if verb.name == "progress":
                    await meet()
                return await plain(verb)

            stage.backend.arun = arun
            assert (await stage.settled(count.enqueue())).state is State.COMPLETED

    play(scenario)


def test_a_cell_says_the_first_word_at_once_and_then_the_latest_now_and_then():
    """Ten thousand words in a moment are some few messages, and the last of them is the last word."""
    heard: list[float] = []

    async def scenario():
        pace = Pace(lambda progress: heard.append(progress.done), asyncio.get_running_loop())
        pace(Progress(0))
        assert heard == [0]
        threads = [threading.Thread(target=lambda: [pace(Progress(n)) for n in range(1, 10_001)]) for _ in "ab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            await asyncio.to_thread(thread.join)
        while heard[-1] != 10_000:  # noqa: ASYNC110 - threads take part
            await asyncio.sleep(PACE)
        assert len(heard) < 100

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_what_a_cell_said_last_goes_before_its_end():
    heard: list[float] = []

    async def scenario():
        pace = Pace(lambda progress: heard.append(progress.done), asyncio.get_running_loop())
        for number in range(3):
            pace(Progress(number))
        pace.flush()
        assert heard == [0, 2]
        pace.flush()
        await asyncio.sleep(2 * PACE)
        assert heard == [0, 2]

    asyncio.run(scenario())
