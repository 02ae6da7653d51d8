"""Tells the store about attempts in progress: that they run, and how far they are.

Most jobs are over before the first report; only those still running after a moment cost a write, and all of
them together cost one.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta

from standfast.clock import Clock
from standfast.core.job import Claim, ClaimRef, Progress, Verdict
from standfast.errors import StandfastError, StoreError
from standfast.store.verb import Verb
from standfast.worker.control import Control, StopReason
from standfast.worker.storecalls import StoreCalls

log = logging.getLogger(__name__)

MARK_AFTER = 0.2
ROUND = 0.1

LAST_WORD = 1.0
"""Seconds for the last word of an attempt to reach the store before its ending goes there."""


class Reporter:
    """Marks long attempts as running and passes progress on, both fenced and batched."""

    def __init__(
        self,
        calls: StoreCalls,
        clock: Clock,
        worker: str,
        running: Callable[[], Sequence[Control]],
        announce: Callable[[Claim, Progress], None],
        *,
        busy: Callable[[bool], None] = lambda _: None,
    ) -> None:
        self._calls = calls
        self._clock = clock
        self._worker = worker
        self._running = running
        self._announce = announce
        self._busy = busy
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
        if (ref in self._progress or ref in self._sent) and self._clock.boot() - control.started_boot >= ROUND:
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
                self._announce(control.claim, progress)

    async def mark(self, control: Control) -> bool:
        """Mark one attempt as running before it starts; return whether the claim is still ours."""
        started = [(control.claim.ref, self._clock.now())]
        verdicts = await self._calls.until_answered(
            lambda: self._calls.verbs.start(self._worker, started), passing=(StoreError,)
        )
        control.marked = True
        return verdicts[0] is Verdict.ACCEPTED

    async def run(self) -> None:
        """Report, round after round, while anything runs.

        Begun again after a failure, it marks what is not marked; only what was said of progress may be lost.
        """
        while True:
            await self._awake.wait()
            self._busy(True)  # before the first step of what runs: this was woken before that was scheduled
            await asyncio.sleep(ROUND)
            if not self._running() and not self._progress:
                self._awake.clear()
                self._busy(False)
                continue
            await self._mark_long_ones()
            await self._send_progress()

    async def _mark_long_ones(self) -> None:
        boot, now = self._clock.boot(), self._clock.now()
        long = [
            control
            for control in self._running()
            if control.started_boot and not control.marked and boot - control.started_boot >= MARK_AFTER
        ]
        started = [(c.claim.ref, now - timedelta(seconds=boot - c.started_boot)) for c in long]
        if long and await self._told(long, self._calls.verbs.start(self._worker, started)):
            for control in long:
                control.marked = True

    async def _send_progress(self) -> None:
        async with self._sending:
            with self._progressing:
                reports, self._progress = self._progress, {}
            for control, progress in reports.values():
                self._announce(control.claim, progress)
            if reports:
                self._sent = reports.keys()
                controls = [control for control, _ in reports.values()]
                pairs = [(ref, progress) for ref, (_, progress) in reports.items()]
                try:
                    await self._told(controls, self._calls.verbs.progress(self._worker, pairs))
                finally:
                    self._sent = ()

    async def _told(self, controls: Sequence[Control], verb: Verb[tuple[Verdict, ...]]) -> bool:
        """Tell the store; where it answers that a claim is stale, tell the handler."""
        try:
            verdicts = await self._calls.once(verb)
        except StandfastError:
            return False
        self.heed(controls, verdicts)
        return True

    def heed(self, controls: Sequence[Control], verdicts: Sequence[Verdict]) -> None:
        """Where the store has answered that the claim of a running attempt is stale, tell its handler."""
        if Verdict.STALE not in verdicts:
            return
        still_running = set(self._running())
        for control, verdict in zip(controls, verdicts, strict=True):
            told = control.concluding or control.why is StopReason.LOST
            if verdict is Verdict.STALE and control in still_running and not told:
                control.interrupt(StopReason.LOST)
