"""What a handler has saved goes with the transaction that completes its job."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from desk import cursors

from standfast import Context, Standfast
from standfast.testing import StandfastKit


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


def saved(kit: StandfastKit, handle: Any) -> list[tuple[str, int, int, str]]:
    backend = kit._ground.backend
    return cursors(backend.run(backend.verbs.memos(handle.id)))


@pytest.mark.timeout(20)
def test_a_cursor_is_written_by_the_transaction(file: Path) -> None:
    """While that has the lock nothing else can write, and after it nothing is accepted."""
    app = Standfast("memory://")

    @app.task
    def work(ctx: Context) -> None:
        connection = sqlite3.connect(file)
        ctx.cursor.save("before")
        loop = iter(ctx.resume(range(5)))
        next(loop)
        next(loop)
        with ctx.transaction(connection):
            ctx.cursor.save("inside")
        connection.close()
        ctx.cursor.flush()

    with StandfastKit(app, url=f"sqlite:///{file}") as kit:
        handle = work.enqueue()
        kit.drain()
        assert saved(kit, handle) == [("", 1, 0, '"inside"'), ("items", 1, 1, "null")]


@pytest.mark.timeout(20)
def test_a_cursor_outlives_a_transaction_that_is_undone(file: Path) -> None:
    """It is flushed at the end of the attempt, as without one."""
    app = Standfast("memory://")
    seen: list[Any] = []

    @app.task(max_attempts=2, backoff=0)
    def work(ctx: Context) -> None:
        seen.append(ctx.cursor.load())
        connection = sqlite3.connect(file)
        try:
            with ctx.transaction(connection):
                ctx.cursor.save(ctx.attempt)
                if ctx.attempt == 1:
                    raise OSError("a pity")
        finally:
            connection.close()

    with StandfastKit(app, url=f"sqlite:///{file}") as kit:
        handle = work.enqueue()
        kit.drain_all(raising=False)
        assert seen == [None, 1]
        assert saved(kit, handle) == [("", 1, 0, "2")]
