"""What attempts write down reaches the store: under their claims, in few calls, and before they end."""

import asyncio
import gc
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from saving_scene import Scene, Unreliable
from stage import SETTINGS, play, working

from standfast import Context, Interrupted, LostClaimError, Standfast
from standfast.errors import StoreUnavailableError, ValueNotStoredError
from standfast.model.memos import Memo
from standfast.model.states import State
from standfast.stores.verb import Verb
from standfast.worker.progress import FLUSH_LIMIT, WRITE_DELAY


def write(ctx: Context, name: str, body: bytes, *, hurry: bool = True) -> "Future[None]":
    return ctx._control.notebook.write(Memo(name, body), hurry=hurry)


def words(ctx: Context, *memos: Memo) -> None:
    ctx._control.notebook.at_end(lambda: memos)


def test_writings_of_all_attempts_go_together() -> None:
    """One call serves them all; of one name only the latest is sent; numbers grow with the saves of a claim."""

    async def scenario() -> None:
        app = Standfast("memory://")
        met = asyncio.Barrier(3)

        @app.task
        async def work(ctx: Context) -> None:
            await met.wait()
            answers = [write(ctx, "cursor", bytes([n]), hurry=n == 2) for n in range(3)]
            for answer in answers:
                await asyncio.wrap_future(answer)
            await asyncio.wrap_future(write(ctx, "other", b"x"))

        stage = Scene(app)
        handles = [work.enqueue() for _ in range(3)]
        async with working(stage):
            for handle in handles:
                assert (await stage.settled(handle)).state is State.COMPLETED
        assert [len(saves) for saves in stage.saves] == [3, 3]
        assert [[save.number for save in saves] for saves in stage.saves] == [[1, 1, 1], [2, 2, 2]]
        assert [stage.memos(handle) for handle in handles] == [{"cursor": b"\x02", "other": b"x"}] * 3

    play(scenario)


def test_without_hurry_a_writing_waits_for_others() -> None:
    """A handler that writes all the time costs a save in a while."""

    async def scenario() -> None:
        app = Standfast("memory://")

        @app.task
        async def work(ctx: Context) -> None:
            for number in range(1_000):
                write(ctx, "cursor", b"%d" % number, hurry=False)
                await asyncio.sleep(0.001)

        stage = Scene(app)
        handle = work.enqueue()
        async with working(stage):
            await stage.settled(handle)
        assert 9 <= len(stage.saves) <= 12
        assert stage.memos(handle) == {"cursor": b"999"}

    play(scenario)


def test_a_job_that_writes_nothing_costs_nothing() -> None:
    """No read, no save."""

    async def scenario() -> None:
        app = Standfast("memory://")

        @app.task
        async def work(ctx: Context) -> None:
            await asyncio.sleep(ctx.attempt)

        stage = Scene(app)
        handle = work.enqueue()
        async with working(stage):
            await stage.settled(handle)
        assert stage.way == ["finish"]

    play(scenario)


@pytest.mark.parametrize("how", ["return", "raise", "interrupted", "cancel", "timeout", "stop"])
def test_what_is_written_is_saved_before_the_ending(how: str) -> None:
    """However an attempt ends, also what it would only say last."""

    async def scenario() -> None:
        app = Standfast("memory://")

        @app.task(timeout=2 if how == "timeout" else None, max_attempts=2)
        async def work(ctx: Context) -> None:
            if ctx.fence > 1:
                return
            write(ctx, "cursor", b"7", hurry=False)
            words(ctx, Memo("last", b"8"))
            if how == "raise":
                raise OSError("a pity")
            if how == "interrupted":
                raise Interrupted
            if how != "return":
                await asyncio.sleep(1_000)

        stage = Scene(app)
        handle = work.enqueue()
        async with working(stage):
            await stage.until(lambda: stage.job(handle).state is State.RUNNING or "finish" in stage.backend.calls)
            if how == "cancel":
                handle.cancel()
                stage.pass_on()
            if how == "stop":
                stage.stop()
            await stage.until(lambda: "finish" in stage.backend.calls)
            assert stage.memos(handle) == {"cursor": b"7", "last": b"8"}
        assert stage.way[stage.way.index("finish") - 1] == "save"

    play(scenario)


def test_a_save_that_was_not_answered_is_sent_again_with_its_number() -> None:
    """While the store is away the claim is ours; what is written meanwhile waits for the next save."""

    async def scenario() -> None:
        app = Standfast("memory://")

        @app.task
        async def work(ctx: Context) -> None:
            first = write(ctx, "cursor", b"1")
            await asyncio.sleep(0.01)
            second = write(ctx, "cursor", b"2")
            for answer in (first, second):
                await asyncio.wrap_future(answer)

        stage = Scene(app)
        stage.backend.lose_answers = 2
        handle = work.enqueue()
        async with working(stage):
            assert (await stage.settled(handle)).state is State.COMPLETED
        sent = [(save.number, save.memos[0].body) for saves in stage.saves for save in saves]
        assert sent == [(1, b"1")] * 3 + [(2, b"2")]

    play(scenario)


def test_an_attempt_that_was_lost_is_told_by_its_save() -> None:
    """The future raises, the handler is told, and nothing is written."""

    async def scenario() -> None:
        app = Standfast("memory://")
        heard: list[object] = []

        @app.task
        async def work(ctx: Context) -> None:
            if ctx.fence > 1:
                return
            row = stage.backend.verbs._jobs[ctx.job_id]
            row.wait(row.run_at)  # as if it had been buried
            try:
                await asyncio.wrap_future(write(ctx, "cursor", b"1"))
            except (LostClaimError, asyncio.CancelledError) as error:
                heard.append(type(error))
                heard.append(ctx.lost)
                raise

        stage = Scene(app)
        handle = work.enqueue()
        async with working(stage):
            await stage.settled(handle)
        assert heard[1] is True
        assert stage.memos(handle) == {}

    play(scenario)


def test_a_flush_is_bounded_in_time(caplog: Any) -> None:
    """The ending goes all the same, and the log says what that may mean."""

    async def scenario() -> None:
        app = Standfast("memory://")

        @app.task
        async def work(ctx: Context) -> None:
            write(ctx, "cursor", b"1")

        stage = Scene(app)
        stage.backend.away = True
        handle = work.enqueue()
        async with working(stage):
            before = stage.clock.boot()
            await stage.settled(handle)
            assert FLUSH_LIMIT <= stage.clock.boot() - before <= FLUSH_LIMIT + 1
            stage.backend.away = False

    play(scenario)
    assert "may repeat a part" in caplog.text


def test_a_memo_that_cannot_be_stored_does_not_hold_up_the_others() -> None:
    """Who wrote it hears so; what others wrote is kept."""

    async def scenario() -> None:
        app = Standfast("memory://")
        met = asyncio.Barrier(2)
        heard: list[str] = []

        @app.task
        async def work(body: str, ctx: Context) -> None:
            await met.wait()
            try:
                await asyncio.wrap_future(write(ctx, "cursor", body.encode()))
            except ValueNotStoredError as error:
                heard.append(str(error))

        stage = Scene(app)
        stage.backend.refused = b"bad"
        bad, good = work.enqueue("bad"), work.enqueue("good")
        async with working(stage):
            for handle in (bad, good):
                await stage.settled(handle)
        assert heard == ["it cannot be kept"]
        assert (stage.memos(bad), stage.memos(good)) == ({}, {"cursor": b"good"})

    play(scenario)


def test_threads_write_and_read_too() -> None:
    """A plain function waits for its futures; what an earlier attempt wrote is read."""

    async def scenario() -> None:
        app = Standfast("memory://")

        @app.task(max_attempts=2, backoff=0)
        def work(ctx: Context) -> str:
            found = ctx._control.notebook.read().result(10)
            write(ctx, "cursor", b"from the first").result(10)
            if ctx.attempt == 1:
                raise OSError("a pity")
            return found["cursor"].decode()

        stage = Scene(app)
        handle = work.enqueue()
        async with working(stage):
            assert (await stage.settled(handle)).state is State.COMPLETED
            assert handle.result() == "from the first"

    play(scenario, virtual=False)


def test_a_writing_of_a_lost_claim_raises() -> None:
    """A thread cannot be cancelled: its future says so, and nothing that it writes is kept."""

    async def scenario() -> None:
        app = Standfast("memory://")
        heard: list[str] = []

        @app.task
        def work(ctx: Context) -> None:
            if ctx.fence > 1:
                return
            row = stage.backend.verbs._jobs[ctx.job_id]
            row.wait(row.run_at)  # as if it had been buried
            with pytest.raises(LostClaimError, match="end the handler"):
                write(ctx, "cursor", b"1").result(10)
            heard.append("lost")

        stage = Scene(app)
        handle = work.enqueue()
        async with working(stage):
            await stage.settled(handle)
            await stage.until(lambda: heard)
        assert stage.memos(handle) == {}

    play(scenario, virtual=False)


@pytest.mark.parametrize("how", ["lost", "flush"])
def test_an_answer_that_nobody_waits_for_any_more_is_no_stray_exception(how: str) -> None:
    """Who waited for it was told otherwise, by its cancellation, or has given up."""

    async def scenario() -> None:
        app = Standfast("memory://")
        strays: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: strays.append(context))

        @app.task
        async def work(ctx: Context) -> None:
            if ctx.fence > 1:
                return
            if how == "flush":
                stage.backend.away = True
                ctx.cursor.save(1)
                return
            row = stage.backend.verbs._jobs[ctx.job_id]
            row.wait(row.run_at)  # as if it had been buried
            async for _ in ctx.resume(range(10), every=1):
                pass

        stage = Scene(app)
        handle = work.enqueue()
        async with working(stage):
            await stage.settled(handle)
            stage.backend.away = False
            await asyncio.sleep(10)
            gc.collect()
        assert strays == []

    play(scenario)


def test_what_was_written_without_hurry_is_in_a_hurry_at_the_end() -> None:
    """The end of an attempt, and its slot, do not wait for others to write."""

    async def scenario() -> None:
        app = Standfast("memory://")

        @app.task
        async def work(ctx: Context) -> None:
            ctx.cursor.save(1)

        stage = Scene(app)
        handle = work.enqueue()
        async with working(stage):
            before = stage.clock.boot()
            await stage.settled(handle)
            assert stage.clock.boot() - before < WRITE_DELAY

    play(scenario)


def test_a_file_that_the_store_may_know_of_stays(tmp_path: Path) -> None:
    """A save may have been made though its answer was lost: that its repetition is refused says nothing of it."""

    async def scenario() -> None:
        app = Standfast("memory://")
        found: list[tuple[str, bytes]] = []
        arun, cut = Unreliable.arun, threading.Event()

        async def run(verb: Verb[Any]) -> Any:
            answer = await arun(stage.backend, verb)
            if verb.name == "save" and not cut.is_set():
                cut.set()
                row = next(iter(stage.backend.verbs._jobs.values()))
                row.wait(row.run_at)  # as if it had been buried
                raise StoreUnavailableError("committed, but the answer is lost")
            return answer

        @app.task
        def work(ctx: Context) -> None:
            if ctx.fence == 1:
                with pytest.raises((LostClaimError, Interrupted)):
                    ctx.save_file("report", b"x")
                given_up.set()
            elif given_up.wait(10):
                found.extend((name, saved.path.read_bytes()) for name, saved in ctx.files.items())

        given_up = threading.Event()
        stage = Scene(app, replace(SETTINGS, files=str(tmp_path)))
        stage.backend.arun = run  # type: ignore[method-assign]
        handle = work.enqueue()
        async with working(stage):
            assert (await stage.settled(handle)).state is State.COMPLETED
        assert found == [("report", b"x")]

    play(scenario, virtual=False)
