"""Writes down what running attempts want to be remembered: fenced, batched, repeated until it is answered.

While one save is on its way the next one gathers, so one call serves all attempts of the worker, and however often
they write there is never more than one under way. A save that was not answered is sent again with its number: the
claim is ours until we are told otherwise. Attempts that write nothing cost nothing.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress

from standfast.core.job import Verdict
from standfast.core.memo import Save
from standfast.durable.waiting import awaitable
from standfast.errors import StoreError, ValueNotStoredError
from standfast.worker.control import Control
from standfast.worker.notebooks import ClaimNotebook, lost
from standfast.worker.storecalls import StoreCalls

log = logging.getLogger(__name__)

BATCH = 500
"""Saves in one call, at most."""

MOST_BYTES = 4 * 1024**2
"""After so many bytes no further save goes into a call."""

ROUND = 0.1
"""Seconds that a writing without hurry waits for others."""

FLUSH_LIMIT = 3.0
"""Seconds for what an attempt wrote last to reach the store, before its ending is sent all the same."""


class Saver:
    """The only place where memos are written by a worker, but for a handler's own `ctx.transaction`.

    `heed` hears how the store answered to claims. Made inside a running event loop; notebooks are for any thread.
    """

    def __init__(
        self, calls: StoreCalls, worker: str, heed: Callable[[Sequence[Control], Sequence[Verdict]], None]
    ) -> None:
        self._calls = calls
        self._worker = worker
        self._heed = heed
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._waiting: dict[ClaimNotebook, None] = {}
        self._under_way: list[ClaimNotebook] = []
        self._news = asyncio.Event()
        self._hurry = asyncio.Event()
        self._reading: set[asyncio.Task[None]] = set()

    def open(self, control: Control) -> ClaimNotebook:
        """Return the notebook of an attempt, from any thread."""
        return ClaimNotebook(control, self._wake, self._ask)

    async def flush(self, control: Control) -> None:
        """See to it that the store has what an attempt wrote that is over, unless it takes too long."""
        notebook = control.opened
        if isinstance(notebook, ClaimNotebook) and control.ending is None and not control.taken:
            notebook.take_last_words()
            await self._wait_for(notebook)

    async def run(self) -> None:
        """Save for as long as the worker lives, first what was under way when this failed before."""
        while True:
            if not self._under_way:
                await self._news.wait()
                with suppress(TimeoutError):
                    async with asyncio.timeout(ROUND):
                        await self._hurry.wait()
                self._take()
            await self._send(self._under_way)

    async def _wait_for(self, notebook: ClaimNotebook) -> None:
        answer = notebook.unanswered
        if answer is None:
            return
        waiting = awaitable(answer)
        done, _ = await asyncio.wait([waiting], timeout=FLUSH_LIMIT)
        if not done:
            log.warning(
                "job %s: the store did not take what it wrote down last within %g s; its ending is sent all"
                " the same, and its next attempt may repeat a part",
                notebook.ref.job_id,
                FLUSH_LIMIT,
            )
        elif (error := waiting.exception()) is not None:
            log.warning("job %s: what it wrote down last is not kept: %s", notebook.ref.job_id, error)

    # -- what attempts want ----------------------------------------------------------------------------------

    def _wake(self, notebook: ClaimNotebook, hurry: bool) -> None:
        self._on_loop(lambda: self._gathers(notebook, hurry=hurry))

    def _gathers(self, notebook: ClaimNotebook, *, hurry: bool) -> None:
        self._waiting[notebook] = None
        self._news.set()
        if hurry:
            self._hurry.set()

    def _ask(self, job_id: str) -> "Future[Mapping[str, bytes]]":
        answer: Future[Mapping[str, bytes]] = Future()
        answer.set_running_or_notify_cancel()

        def begin() -> None:
            task = self._loop.create_task(self._read(job_id, answer))
            self._reading.add(task)
            task.add_done_callback(self._reading.discard)

        self._on_loop(begin)
        return answer

    async def _read(self, job_id: str, answer: "Future[Mapping[str, bytes]]") -> None:
        try:
            memos = await self._calls.until_answered(lambda: self._calls.verbs.memos(job_id))
        except Exception as error:  # noqa: BLE001 - whoever asked has to know, whatever it is
            answer.set_exception(error)
        else:
            answer.set_result({memo.name: memo.body for memo in memos})

    def _on_loop(self, act: Callable[[], None]) -> None:
        if threading.get_ident() == self._thread:
            act()
        else:
            with suppress(RuntimeError):  # the loop is closed: this process is about to end
                self._loop.call_soon_threadsafe(act)

    # -- what the store is told ------------------------------------------------------------------------------

    def _take(self) -> None:
        """Take what has gathered, as much as goes into one call."""
        size = 0
        while self._waiting and len(self._under_way) < BATCH and size < MOST_BYTES:
            notebook = next(iter(self._waiting))
            del self._waiting[notebook]
            self._under_way.append(notebook)
            if (save := notebook.next_save()) is not None:
                size += sum(len(memo.body) for memo in save.memos)
        if not self._waiting:
            self._news.clear()
            self._hurry.clear()

    async def _send(self, notebooks: Sequence[ClaimNotebook]) -> None:
        """Save what was taken; begun again after a failure, only what is not answered yet."""
        saves = [(notebook, save) for notebook in notebooks if (save := notebook.next_save()) is not None]
        if saves:
            await self._save(saves)
        self._under_way = []

    async def _save(self, saves: Sequence[tuple[ClaimNotebook, Save]]) -> None:
        try:
            verdicts = await self._calls.until_answered(
                lambda: self._calls.verbs.save(self._worker, [save for _, save in saves]), passing=(StoreError,)
            )
        except ValueNotStoredError as error:
            if len(saves) > 1:  # what the store cannot take must not hold up the others
                for each in saves:
                    await self._save([each])
            else:
                saves[0][0].answered(error)
            return
        for (notebook, _), verdict in zip(saves, verdicts, strict=True):
            notebook.answered(lost(notebook.ref.job_id) if verdict is Verdict.STALE else None)
        self._heed([notebook.control for notebook, _ in saves], verdicts)
