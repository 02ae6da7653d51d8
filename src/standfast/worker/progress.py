"""Tells the store about attempts in progress: that they run, how far they are, and what they write down.

Only attempts that still run after a moment cost a write, and all of them together cost one.
"""

import asyncio
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta

from standfast.durable.runtime import LastWords, awaitable, pending
from standfast.errors import LostClaimError, StandfastError, StoreError, ValueNotStoredError
from standfast.model.clock import Clock
from standfast.model.job import Claim, ClaimRef, Progress, Verdict
from standfast.model.memos import LAST_NUMBER, Memo, Save
from standfast.stores.verb import Verb
from standfast.worker.control import Control, StopReason
from standfast.worker.storecalls import StoreCalls, happens_within

log = logging.getLogger(__name__)

MARK_AFTER = 0.2
ROUND = 0.1
LAST_WORD = 1.0  # seconds for the last word of an attempt to reach the store before its ending goes there


@dataclass(eq=False)
class Reporter:
    """Marks long attempts as running and passes progress on, both fenced and batched."""

    calls: StoreCalls
    clock: Clock
    worker: str
    running: Callable[[], Sequence[Control]]
    announce: Callable[[Claim, Progress], None]
    _: KW_ONLY
    busy: Callable[[bool], None] = lambda _: None

    def __post_init__(self) -> None:
        self._progress: dict[ClaimRef, tuple[Control, Progress]] = {}
        self._progressing = threading.Lock()
        self._sending = asyncio.Lock()
        self._sent: Collection[ClaimRef] = ()
        self._awake = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def something_runs(self) -> None:
        """Look at the running attempts from now on."""
        self._awake.set()

    def progressed(self, control: Control, progress: Progress) -> None:
        """Pass this on with the next round, from any thread and however often: only the latest counts."""
        with self._progressing:
            first = not self._progress
            self._progress[control.claim.ref] = control, progress
        if first:
            self._loop.call_soon_threadsafe(self._awake.set)

    async def last_word(self, control: Control) -> None:
        """Let the store have what an attempt said last, before its ending: after that it would be refused.

        Not of one that was over within a round: nobody would have seen it, and a write would cost it dearly.
        """
        ref = control.claim.ref
        if (ref in self._progress or ref in self._sent) and self.clock.boot() - control.started_boot >= ROUND:
            try:
                async with asyncio.timeout(LAST_WORD):
                    await self._send_progress()
            except Exception as error:  # noqa: BLE001 - what it came to does not depend on what it said
                log.warning("job %s: the store did not take its last progress: %r", ref.job_id, error)

    def ended(self, control: Control) -> None:
        """Say at once what an attempt that is over said last, where that was not passed on."""
        if self._progress:
            with self._progressing:
                _, progress = self._progress.pop(control.claim.ref, (control, None))
            if progress is not None:
                self.announce(control.claim, progress)

    async def mark(self, control: Control) -> bool:
        """Mark one attempt as running before it starts; return whether the claim is still ours."""
        started = [(control.claim.ref, self.clock.now())]
        verdicts = await self.calls.until_answered(
            lambda: self.calls.verbs.start(self.worker, started), passing=(StoreError,)
        )
        control.marked = True
        return verdicts[0] is Verdict.ACCEPTED

    async def run(self) -> None:
        """Report, round after round, while anything runs.

        Begun again after a failure, it marks what is not marked; only what was said of progress may be lost.
        """
        while True:
            await self._awake.wait()
            self.busy(True)  # before the first step of what runs: this was woken before that was scheduled
            await asyncio.sleep(ROUND)
            if not self.running() and not self._progress:
                self._awake.clear()
                self.busy(False)
                continue
            await self._mark_long_ones()
            await self._send_progress()

    async def _mark_long_ones(self) -> None:
        boot, now = self.clock.boot(), self.clock.now()
        long = [
            control
            for control in self.running()
            if control.started_boot and not control.marked and boot - control.started_boot >= MARK_AFTER
        ]
        started = [(c.claim.ref, now - timedelta(seconds=boot - c.started_boot)) for c in long]
        if long and await self._told(long, self.calls.verbs.start(self.worker, started)):
            for control in long:
                control.marked = True

    async def _send_progress(self) -> None:
        async with self._sending:
            with self._progressing:
                reports, self._progress = self._progress, {}
            for control, progress in reports.values():
                self.announce(control.claim, progress)
            if reports:
                self._sent = reports.keys()
                controls = [control for control, _ in reports.values()]
                pairs = [(ref, progress) for ref, (_, progress) in reports.items()]
                try:
                    await self._told(controls, self.calls.verbs.progress(self.worker, pairs))
                finally:
                    self._sent = ()

    async def _told(self, controls: Sequence[Control], verb: Verb[tuple[Verdict, ...]]) -> bool:
        """Tell the store; where it answers that a claim is stale, tell the handler."""
        try:
            verdicts = await self.calls.once(verb)
        except StandfastError:
            return False
        self.heed(controls, verdicts)
        return True

    def heed(self, controls: Sequence[Control], verdicts: Sequence[Verdict]) -> None:
        """Where the store has answered that the claim of a running attempt is stale, tell its handler."""
        if Verdict.STALE not in verdicts:
            return
        still_running = set(self.running())
        for control, verdict in zip(controls, verdicts, strict=True):
            told = control.concluding or control.why is StopReason.LOST
            if verdict is Verdict.STALE and control in still_running and not told:
                control.interrupt(StopReason.LOST)


class EndOfNotebook(ABC):
    """What has gathered, and those who have a last word."""

    def __init__(self) -> None:
        self._gathered: dict[str, Memo] = {}
        self._at_end: list[LastWords] = []

    @abstractmethod
    def write(self, *memos: Memo, hurry: bool = True) -> "Future[None]":
        """Write memos down."""

    def at_end(self, last_words: LastWords) -> None:
        """Ask this when the attempt ends."""
        self._at_end.append(last_words)

    def last_words(self) -> list[Memo]:
        """Return what is left to write, as far as it can be told."""
        memos: list[Memo] = []
        for tell in self._at_end:
            try:
                memos += tell()
            except Exception:  # values of the user's are encoded there
                log.exception("how far a handler got cannot be written down")
        return memos

    def take_last_words(self) -> None:
        """Write what is left, by those who have asked to be asked, and what has waited for others until now."""
        memos = self.last_words()
        if memos or self._gathered:
            self.write(*memos)


class ClaimNotebook(EndOfNotebook):
    """The notebook of one claim, in the process of its worker.

    `wake` hears that something was gathered, and whether it is in a hurry; `ask` reads the memos of a job.
    """

    def __init__(
        self,
        control: Control,
        wake: Callable[["ClaimNotebook", bool], None],
        ask: Callable[[str], "Future[Mapping[str, bytes]]"],
    ) -> None:
        super().__init__()
        self.control = control
        self.ref = control.claim.ref
        self._wake = wake
        self._ask = ask
        self._changing = threading.Lock()
        self._answer = pending()
        self._under_way: tuple[Save, Future[None]] | None = None
        self._number = 0

    def read(self) -> "Future[Mapping[str, bytes]]":
        """Return the memos by name as the store has them now."""
        return self._ask(self.ref.job_id)

    def write(self, *memos: Memo, hurry: bool = True) -> "Future[None]":
        """Write memos down with the next save."""
        with self._changing:
            first = not self._gathered
            self._gathered |= {memo.name: memo for memo in memos}
            answer = self._answer
        if first or hurry:
            self._wake(self, hurry)
        return answer

    @property
    def unanswered(self) -> "Future[None] | None":
        """The future of what was written last; None once the store has everything."""
        with self._changing:
            if self._gathered:
                return self._answer
            return None if self._under_way is None else self._under_way[1]

    def next_save(self) -> Save | None:
        """Return what is to be sent now: the same save until it is answered, then what has gathered since."""
        with self._changing:
            if self._under_way is None and self._gathered:
                self._number += 1
                save = Save(self.ref, self._number, tuple(self._gathered.values()))
                self._under_way = save, self._answer
                self._gathered, self._answer = {}, pending()
            return None if self._under_way is None else self._under_way[0]

    def answered(self, error: Exception | None = None) -> None:
        """Take note of what the store said to the save that was under way."""
        with self._changing:
            sent, self._under_way = self._under_way, None
        if sent is not None:
            _settle(sent[1], error)

    def unwritten(self) -> Save | None:
        """Return all that the store is not known to have, to be written with the end of the claim."""
        last = {memo.name: memo for memo in self.last_words()}
        with self._changing:
            sent = () if self._under_way is None else self._under_way[0].memos
            memos = {memo.name: memo for memo in sent} | self._gathered | last
        return Save(self.ref, LAST_NUMBER, tuple(memos.values())) if memos else None

    def written(self) -> None:
        """Take note that the store has it all."""
        with self._changing:
            answers = [self._answer, *([] if self._under_way is None else [self._under_way[1]])]
            self._gathered, self._answer = {}, pending()
        for answer in answers:
            _settle(answer)


def _settle(answer: "Future[None]", error: Exception | None = None) -> None:
    with suppress(InvalidStateError):  # a transaction of the handler may have written it meanwhile, in its thread
        if error is None:
            answer.set_result(None)
        else:
            answer.set_exception(error)


def lost(job_id: str) -> LostClaimError:
    """Return the error of a write that the store refused."""
    return LostClaimError(f"job {job_id} was lost to another worker, which goes on with it; end the handler")


# While one save is on its way the next one gathers: one call serves all attempts, and never more than one is under
# way. An unanswered save is sent again with its number.

BATCH = 500  # saves in one call, at most
MOST_BYTES = 4 * 1024**2  # after so many bytes no further save goes into a call
WRITE_DELAY = 0.1  # seconds that a writing without hurry waits for others
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
                await happens_within(WRITE_DELAY, self._hurry.wait())
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
