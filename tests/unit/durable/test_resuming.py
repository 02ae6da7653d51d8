"""`ctx.resume`: a later attempt goes on after the last item that is done, or says why it cannot."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Annotated, Any

import pytest
from desk import Attempt, Desk, cursors

from standfast import Context, CursorError, Interrupted, Secret, Standfast
from standfast.durable.resume import LEFT_OUT_AT_ONCE
from standfast.errors import ArgumentsError, PayloadError
from standfast.model.memos import MEMOS_LIMIT, Memo
from standfast.testing import StandfastKit

WORDS = ["ant", "bee", "cat", "dog", "eel"]


async def streamed(items: Iterable[Any]) -> AsyncIterator[Any]:
    for item in items:
        await asyncio.sleep(0)
        yield item


def memos(kit: StandfastKit, handle: Any) -> tuple[Memo, ...]:
    backend = kit._ground.backend
    return backend.run(backend.verbs.memos(handle.id))


@pytest.mark.parametrize(
    "key", [None, lambda word: word, lambda word: {"first": word[0]}], ids=["index", "key", "dict"]
)
@pytest.mark.parametrize("way", ["for", "async for", "async items"])
@pytest.mark.parametrize("every", [1, 3, 100])
def test_an_attempt_goes_on_after_the_last_item_that_is_done(
    key: Any, way: str, every: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The one that raised is done again, and no other; the log says from where."""
    app = Standfast("memory://")
    caplog.set_level(logging.INFO)
    seen: list[str] = []

    def do(ctx: Context, word: str) -> None:
        seen.append(word)
        if word == "dog" and ctx.attempt == 1:
            raise OSError("a pity")

    def blocking(ctx: Context) -> None:
        for word in ctx.resume(WORDS, key=key, every=every):
            do(ctx, word)

    async def awaiting(ctx: Context) -> None:
        items: Any = WORDS if way == "async for" else streamed(WORDS)
        async for word in ctx.resume(items, key=key, every=every):
            do(ctx, word)

    work: Any = app.task(name="work", max_attempts=2, backoff=0)(blocking if way == "for" else awaiting)
    with StandfastKit(app) as kit:
        handle = work.enqueue()
        kit.drain_all(raising=False)
        assert seen == ["ant", "bee", "cat", "dog", "dog", "eel"]
        assert "resumes items: goes on after item 3" in caplog.text
        [(name, _, done, _)] = cursors(memos(kit, handle))
        assert (name, done) == ("items", 5)


def test_a_break_leaves_its_item_undone() -> None:
    """A later attempt begins with it."""
    app = Standfast("memory://")
    seen: list[str] = []

    @app.task(max_attempts=2, backoff=0)
    def work(ctx: Context) -> None:
        for word in ctx.resume(WORDS):
            seen.append(word)
            if word == "bee" and ctx.attempt == 1:
                break
        if ctx.attempt == 1:
            raise OSError("a pity")

    with StandfastKit(app) as kit:
        work.enqueue()
        kit.drain_all(raising=False)
    assert seen == ["ant", "bee", "bee", "cat", "dog", "eel"]


def test_a_loop_that_is_over_is_not_done_again() -> None:
    """Whatever fails after it; two loops of one handler have their own places."""
    app = Standfast("memory://")
    seen: list[str] = []

    @app.task(max_attempts=2, backoff=0)
    def work(ctx: Context) -> None:
        seen.extend(ctx.resume(WORDS, name="first"))
        for number in ctx.resume([1, 2, 3], name="second"):
            if number == 2 and ctx.attempt == 1:
                raise OSError("a pity")
            seen.append(str(number))

    with StandfastKit(app) as kit:
        handle = work.enqueue()
        kit.drain_all(raising=False)
        assert seen == [*WORDS, "1", "2", "3"]
        assert [name for name, *_ in cursors(memos(kit, handle))] == ["first", "second"]


@pytest.mark.parametrize("every", [1, 2, 4])
def test_a_crash_repeats_no_more_than_it_may(every: int) -> None:
    """A kit's crash is one without last words: what was not saved by then is done again."""
    app = Standfast("memory://")
    seen: list[str] = []

    @app.task(max_attempts=9, backoff=0)
    def work(ctx: Context) -> None:
        for word in ctx.resume(WORDS, every=every):
            seen.append(word)
            if word == "eel":
                ctx.fault_point("last")

    with StandfastKit(app) as kit:
        work.enqueue()
        with kit.crash_after("last"):
            kit.drain()
        kit.drain()
    assert set(seen) == set(WORDS)
    assert 1 <= len(seen) - len(WORDS) <= every


Items = Callable[[int], Any]


@pytest.mark.parametrize(
    ("options", "items", "words"),
    [
        (
            {"key": str},
            lambda attempt: range(10 * attempt, 10 * attempt + 9),
            "after item 3: that one is not among the 9 items",
        ),
        ({}, lambda attempt: range(9 if attempt == 1 else 2), "after item 3: that one is not among the 2 items"),
    ],
    ids=["key", "index"],
)
def test_a_place_that_does_not_come_up_is_an_error(options: Any, items: Items, words: str) -> None:
    """Rather than doing everything again, or nothing."""
    app = Standfast("memory://")

    @app.task(max_attempts=2, backoff=0)
    def work(ctx: Context) -> None:
        for number, _ in enumerate(ctx.resume(items(ctx.attempt), **options)):
            if number == 3:
                raise OSError("a pity")

    with StandfastKit(app) as kit:
        work.enqueue()
        runs = kit.drain_all(raising=False)
    assert words in (runs[1].error or "")


@pytest.mark.parametrize(
    ("then", "words"), [({"version": 2}, "was saved under version 1"), ({"key": str}, "was saved by index")]
)
@pytest.mark.parametrize("on_version", ["raise", "restart"])
def test_a_place_that_means_something_else_is_not_used(then: Any, words: str, on_version: Any) -> None:
    """It is an error, or the loop begins anew where the handler says so."""
    app = Standfast("memory://")
    seen: list[str] = []

    @app.task(max_attempts=2, backoff=0)
    def work(ctx: Context) -> None:
        for word in ctx.resume(WORDS, on_version=on_version, **({} if ctx.attempt == 1 else then)):
            if word == "cat" and ctx.attempt == 1:
                raise OSError("a pity")
            seen.append(word)

    with StandfastKit(app) as kit:
        work.enqueue()
        runs = kit.drain_all(raising=False)
    if on_version == "raise":
        assert words in (runs[1].error or "")
        assert seen == WORDS[:2]
    else:
        assert seen == WORDS[:2] + WORDS


def refusal(use: Callable[[Context], Any]) -> str:
    """Return why an attempt failed that uses its context so."""
    app = Standfast("memory://")

    @app.task(max_attempts=1)
    def work(ctx: Context) -> None:
        use(ctx)

    with StandfastKit(app) as kit:
        work.enqueue()
        [run] = kit.drain(raising=False)
        return run.error or ""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"every": 0}, "every must be a whole number of items, 1 or more, not 0"),
        ({"every": -5}, "every must be"),
        ({"every": 1.5}, "every must be"),
        ({"every": True}, "every must be"),
        ({"seconds": 0}, "seconds must be a span greater than 0"),
        ({"seconds": float("nan")}, "seconds must be"),
        ({"seconds": "5"}, "seconds must be"),
        ({"version": 0}, "version must be"),
        ({"on_version": "never"}, "on_version must be"),
        ({"key": "id"}, "key must be a function"),
        ({"name": ""}, "no colon"),
        ({"name": "a:b"}, "no colon"),
        ({"key": lambda _: object()}, "the key, of type object, cannot be stored as JSON"),
    ],
    ids=str,
)
def test_bad_options_are_refused(options: dict[str, Any], words: str) -> None:
    """Before anything is done, with a word on what they may be."""
    done: list[str] = []

    def use(ctx: Context) -> None:
        done.extend(ctx.resume(WORDS, **options))

    assert words in refusal(use)
    assert done == []


def test_misuse_is_told() -> None:
    """One name for two loops, one loop twice, no items, async items in plain code, plain `for` in async code."""
    app = Standfast("memory://")

    @app.task(max_attempts=1)
    def work(ctx: Context) -> None:
        loop = ctx.resume(WORDS)
        assert list(loop) == WORDS
        with pytest.raises(CursorError, match="looped over twice"):
            list(loop)
        with pytest.raises(CursorError, match="resumes two loops as 'items'"):
            ctx.resume(WORDS)
        with pytest.raises(ArgumentsError, match="needs items to loop over, not int"):
            ctx.resume(7, name="seven")  # type: ignore[arg-type]
        with pytest.raises(ArgumentsError, match="write `async for` in an async handler"):
            list(ctx.resume(streamed(WORDS), name="async"))

    @app.task(max_attempts=1)
    async def awork(ctx: Context) -> None:
        with pytest.raises(CursorError, match=r"write `async for … in ctx.resume\(…\)` in async code"):
            list(ctx.resume(WORDS))

    with StandfastKit(app) as kit:
        work.enqueue()
        awork.enqueue()
        kit.drain(raising=True)


def test_a_cursor_that_cannot_be_read_is_told_as_such() -> None:
    """It is no place to begin from, be it the first or any other."""
    desk = Desk()
    desk.memos["cursor:items"] = b"{"
    with pytest.raises(PayloadError, match=r"what is stored of ctx\.resume 'items' cannot be read"):
        list(desk.context().resume(WORDS))


class Both:
    """Items that can be had either way, as those of some database libraries; on a loop only the async one works."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("this would block the event loop")

    def __aiter__(self) -> AsyncIterator[str]:
        return streamed(WORDS)


def test_items_that_can_be_awaited_are_awaited() -> None:
    """In `async for`, also if they can be had by blocking."""
    app = Standfast("memory://")

    @app.task(max_attempts=1)
    async def work(ctx: Context) -> list[str]:
        return [word async for word in ctx.resume(Both())]

    with StandfastKit(app) as kit:
        handle = work.enqueue()
        kit.drain(raising=True)
        assert handle.result() == WORDS


@pytest.mark.parametrize("way", ["for", "async for"])
@pytest.mark.parametrize("attempt", [1, 2])
def test_two_items_in_a_row_with_one_key_are_refused(way: str, attempt: int) -> None:
    """After a crash the loop would go on after the first of them, and do again what is saved as done."""
    app = Standfast("memory://")
    seen: list[str] = []

    def do(ctx: Context, word: str) -> None:
        if ctx.attempt < attempt:
            raise OSError("a pity")
        seen.append(word)

    def blocking(ctx: Context) -> None:
        for word in ctx.resume(["ant", "ape", "bee"], key=lambda word: word[: ctx.attempt - attempt + 1] or word):
            do(ctx, word)

    async def awaiting(ctx: Context) -> None:
        async for word in ctx.resume(["ant", "ape"], key=lambda word: word[: ctx.attempt - attempt + 1] or word):
            do(ctx, word)

    work: Any = app.task(name="work", max_attempts=attempt, backoff=0)(blocking if way == "for" else awaiting)
    with StandfastKit(app) as kit:
        work.enqueue()
        runs = kit.drain_all(raising=False)
        assert "two items in a row have the same key" in (runs[-1].error or "")
    assert seen == ["ant"]


def test_a_key_is_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    """It may have been made of secret arguments, and nobody could tell."""
    app = Standfast("memory://")
    caplog.set_level(logging.INFO)

    @app.task(max_attempts=3, backoff=0)
    def work(pin: Annotated[str, Secret], ctx: Context) -> None:
        prefix = pin[::-1] if ctx.attempt < 3 else ""
        for word in ctx.resume(WORDS, key=lambda word: prefix + word):
            if word == "cat":
                raise OSError("a pity")

    with StandfastKit(app) as kit:
        work.enqueue(pin="12345678")
        runs = kit.drain_all(raising=False)
    assert "goes on after item 2" in caplog.text
    assert "cannot go on after item 2" in (runs[2].error or "")
    assert "87654321" not in caplog.text + (runs[2].error or "")


def test_a_job_has_no_more_loops_than_it_may_have_memos() -> None:
    """Each has a cursor in the store, which every later attempt reads."""
    ctx = Desk().context()
    for number in range(MEMOS_LIMIT):
        list(ctx.resume(["ant"], name=f"loop {number}"))
    with pytest.raises(CursorError, match=r"more than 1,000 loops"):
        ctx.resume(["ant"], name="one more")


def test_an_attempt_that_is_to_end_does_not_first_leave_out_what_is_done() -> None:
    """A source may be slow, and all that is known is where the place is."""
    desk = Desk()
    desk.memos["cursor:items"] = b'{"version":1,"by":"index","done":1000}'
    drawn: list[int] = []

    def source(attempt: Attempt) -> Iterator[int]:
        for number in range(1_001):
            drawn.append(number)
            attempt.cancelled = number >= 5
            yield number

    attempt = desk.attempt()
    with pytest.raises(Interrupted):
        list(attempt.context.resume(source(attempt)))
    assert drawn == list(range(6))

    async def aloop(attempt: Attempt) -> None:
        async for _ in attempt.context.resume(source(attempt)):
            pass

    drawn.clear()
    with pytest.raises(Interrupted):
        asyncio.run(aloop(desk.attempt()))
    assert drawn == list(range(6))


def test_others_have_their_turn_while_items_are_left_out() -> None:
    """Most sources give item after item without ever waiting."""
    desk = Desk()
    done = 10 * LEFT_OUT_AT_ONCE
    desk.memos["cursor:items"] = b'{"version":1,"by":"index","done":%d}' % done
    drawn = 0
    seen: list[int] = []

    def source() -> Iterator[int]:
        nonlocal drawn
        while drawn <= done:
            yield drawn
            drawn += 1

    async def other() -> None:
        while not drawn:  # noqa: ASYNC110 - the source tells nobody
            await asyncio.sleep(0)
        seen.append(drawn)

    async def work() -> None:
        beside = asyncio.create_task(other())
        async for item in desk.context().resume(source()):
            assert item == done
        await beside

    asyncio.run(work())
    assert seen[0] < 2 * LEFT_OUT_AT_ONCE
