"""`ctx.cursor`: what one attempt saves, the next one loads; what cannot be kept is refused at once."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from desk import Desk, cursors

from standfast import Context, CursorError, Standfast
from standfast.errors import ArgumentsError, StoreError
from standfast.model.memos import MEMO_LIMIT, Memo
from standfast.testing import StandfastKit


@dataclass
class Place:
    page: int
    row: str


def memos(kit: StandfastKit, handle: Any) -> tuple[Memo, ...]:
    backend = kit._ground.backend
    return backend.run(backend.verbs.memos(handle.id))


@pytest.mark.parametrize("flush", [True, False])
def test_a_later_attempt_finds_what_was_saved(flush: bool) -> None:
    """Waited for or not: what is saved is there when the attempt has ended, in whatever way."""
    app = Standfast("memory://")
    seen: list[Any] = []

    @app.task(max_attempts=3, backoff=0)
    def work(ctx: Context) -> None:
        seen.append(ctx.cursor.load(default=0))
        for number in range(100):
            ctx.cursor.save(ctx.attempt * 100 + number)
        assert ctx.cursor.load() == ctx.attempt * 100 + 99
        if flush:
            ctx.cursor.flush()
        if ctx.attempt < 3:
            raise OSError("a pity")

    with StandfastKit(app) as kit:
        handle = work.enqueue()
        kit.drain_all(raising=False)
        assert seen == [0, 199, 299]
        assert cursors(memos(kit, handle)) == [("", 1, 0, "399")]


def test_async_handlers_do_not_block_the_loop() -> None:
    """They await; a call that would block says what to write instead, until the cursor was loaded once."""
    app = Standfast("memory://")

    @app.task(max_attempts=1)
    async def work(ctx: Context) -> list[Any]:
        with pytest.raises(CursorError, match=r"write `await ctx.cursor.aload\(\)` in async code"):
            ctx.cursor.load()
        with pytest.raises(CursorError, match=r"await ctx.cursor.aflush\(\)"):
            ctx.cursor.flush()
        await ctx.cursor.aflush()
        first = await ctx.cursor.aload("none yet")
        ctx.cursor.save([1, 2])
        await ctx.cursor.aflush()
        return [first, ctx.cursor.load(), await ctx.cursor.aload()]

    with StandfastKit(app) as kit:
        handle = work.enqueue()
        kit.drain(raising=True)
        assert handle.result() == ["none yet", [1, 2], [1, 2]]


def test_a_cursor_comes_back_as_its_type() -> None:
    """As the type that is named, or as the class of the default."""
    app = Standfast("memory://")

    @app.task(max_attempts=2, backoff=0)
    def work(ctx: Context) -> str:
        if ctx.attempt == 1:
            ctx.cursor.save(Place(3, "x"))
            raise OSError("a pity")
        by_default, by_type, plain = ctx.cursor.load(Place(0, "")), ctx.cursor.load(type=Place), ctx.cursor.load()
        assert by_default == by_type == Place(3, "x")
        assert plain == {"page": 3, "row": "x"}
        with pytest.raises(CursorError, match="give it another version"):
            ctx.cursor.load(type=int)
        return "done"

    with StandfastKit(app) as kit:
        handle = work.enqueue()
        kit.drain_all(raising=False)
        assert handle.result() == "done"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (object(), "the cursor, of type object, cannot be stored as JSON"),
        (Standfast("memory://"), "of type Standfast"),
        (float("inf"), "not finite"),
        ("x" * MEMO_LIMIT, "at most 262,144 are stored"),
    ],
    ids=["object", "class", "endless", "large"],
)
def test_what_cannot_be_stored_is_refused_at_once(value: Any, words: str) -> None:
    """By the save itself, and what was saved before stays."""
    app = Standfast("memory://")

    @app.task(max_attempts=1)
    def work(ctx: Context) -> Any:
        ctx.cursor.save(7)
        with pytest.raises(CursorError, match=words):
            ctx.cursor.save(value)
        return ctx.cursor.load()

    with StandfastKit(app) as kit:
        handle = work.enqueue()
        kit.drain(raising=True)
        assert handle.result() == 7
        assert cursors(memos(kit, handle)) == [("", 1, 0, "7")]


def test_a_cursor_of_another_version_is_not_used_silently() -> None:
    """It is an error, or begins anew where the handler says so; what is saved then has the new version."""
    app = Standfast("memory://")
    seen: list[Any] = []

    @app.task(max_attempts=4, backoff=0)
    def work(ctx: Context) -> None:
        match ctx.attempt:
            case 1:
                ctx.cursor.save("old")
                raise OSError("a pity")
            case 2:
                ctx.cursor.load(version=2)
            case 3:
                seen.append(ctx.cursor.load("anew", version=2, on_version="restart"))
                ctx.cursor.save("new")
                raise OSError("a pity")
            case _:
                seen.append(ctx.cursor.load(version=2))

    with StandfastKit(app) as kit:
        handle = work.enqueue()
        runs = kit.drain_all(raising=False)
        assert seen == ["anew", "new"]
        assert "was saved under version 1, and this code has version 2" in (runs[1].error or "")
        assert cursors(memos(kit, handle)) == [("", 2, 0, '"new"')]


@pytest.mark.parametrize("options", [{"version": 0}, {"version": True}, {"version": "2"}, {"on_version": "ignore"}])
def test_bad_options_are_refused(options: dict[str, Any]) -> None:
    """With a word on what they may be."""
    app = Standfast("memory://")

    @app.task(max_attempts=1)
    def work(ctx: Context) -> None:
        with pytest.raises(ArgumentsError, match="must be"):
            ctx.cursor.load(**options)

    with StandfastKit(app) as kit:
        work.enqueue()
        kit.drain(raising=True)


def test_after_a_read_that_failed_a_load_must_not_block_the_loop_either() -> None:
    """It asks the store again, which nobody could answer while the loop stands still."""
    desk = Desk()
    desk.memos["cursor"] = b'{"version":1,"value":7}'
    desk.unreadable = StoreError("broken")
    ctx = desk.context()

    async def work() -> None:
        with pytest.raises(StoreError, match="broken"):
            await ctx.cursor.aload()
        desk.unreadable = None
        with pytest.raises(CursorError, match="would block the event loop"):
            ctx.cursor.load()
        assert await ctx.cursor.aload() == 7
        assert ctx.cursor.load() == 7

    asyncio.run(work())
