"""A job at a desk: its memos in memory, and one attempt after the other to use them."""

import asyncio
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from standfast.context import Context
from standfast.durable.durable_context import DurableAttempt
from standfast.durable.memo_view import memo_view
from standfast.durable.runtime import pending
from standfast.model.ids import new_job_id
from standfast.model.job import Claim, ClaimRef
from standfast.model.memos import Memo, signal_memo
from standfast.model.secrets import NO_SECRETS

START = datetime(2030, 1, 1, tzinfo=UTC)


class Desk:
    """The memos of one job, and the store's time."""

    def __init__(self) -> None:
        self.memos: dict[str, bytes] = {}
        self.now = START
        self.reads = 0
        self.refusal: Exception | None = None
        self.unreadable: Exception | None = None
        self.slow = False
        self.asked = asyncio.Event()
        self.attempts = 0

    def attempt(self) -> "Attempt":
        """Return the next attempt of the job."""
        self.attempts += 1
        return Attempt(self)

    def context(self) -> Context:
        """Return what the handler of the next attempt has in hand."""
        return self.attempt().context

    def signal(self, name: str, body: bytes = b"null") -> None:
        """Send a signal."""
        self.memos[signal_memo(name, new_job_id())] = body

    def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        self.now += timedelta(seconds=seconds)


class Attempt:
    """The live side of an attempt."""

    takes_pauses = True
    scrub = NO_SECRETS
    trace = None

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.cancelled = self.lost = self.taken = False
        self.random = Random(1)
        self.claim = Claim(
            ref=ClaimRef("j1", desk.attempts),
            task="order",
            version=1,
            payload=b"",
            queue="default",
            priority=0,
            run_at=START,
            attempt=0,
            crashes=0,
            max_attempts=5,
        )
        self.durable = DurableAttempt(self)
        self.context = Context(self.claim, self)  # type: ignore[arg-type] # as far as steps and waits need it

    @property
    def notebook(self) -> "Attempt":
        """The memos: this is their notebook, too."""
        return self

    def now(self) -> datetime:
        """Return the store's time."""
        return self.desk.now

    def saving(self, connection: Any) -> Any:
        """Return the transaction that a test has prepared."""
        connection.desk = self.desk
        return connection

    def at_end(self, last_words: Any) -> None:
        """Nobody asks."""

    def read(self) -> "Future[Mapping[str, bytes]]":
        """Return the memos."""
        self.desk.reads += 1
        return _failed(self.desk.unreadable) if self.desk.unreadable else _done(dict(self.desk.memos))

    def write(self, *memos: Memo, hurry: bool = True) -> "Future[None]":  # noqa: ARG002 - nothing waits here
        """Write memos, unless the store takes too long for a test to wait for it."""
        if self.desk.slow:
            self.desk.asked.set()
            return pending()
        if self.desk.refusal is not None:
            return _failed(self.desk.refusal)
        self.desk.memos.update((memo.name, memo.body) for memo in memos)
        return _done(None)


def cursors(memos: Iterable[Memo]) -> list[tuple[str, int, int, str]]:
    """Return the cursors of a job as those see them who look at it: name, version, items done, value."""
    return [
        (each.name, each.version, each.done, bytes(each.told.value or b"").decode())
        for each in memo_view(memos, values=True).cursors
    ]


def _done(value: Any) -> "Future[Any]":
    future: Future[Any] = Future()
    future.set_result(value)
    return future


def _failed(error: Exception) -> "Future[Any]":
    future: Future[Any] = Future()
    future.set_exception(error)
    return future
