"""Where a supervisor hands in its incidents, which costs it nothing.

Each goes to disk at once, and to the store when that answers. The same trouble again, soon after, only adds to the
count of the first: while it goes on, that is written every few seconds. What is written is the whole count, and who
writes it is one: an answer that was lost is asked for again with the same token, and nothing counts twice.
"""

import asyncio
import logging
import math
from contextlib import suppress

from msgspec.structs import replace

from standfast.clock import Clock, SystemClock
from standfast.codec import NO_SECRETS, Scrub
from standfast.codec.redaction import redact_text, scrub_of, secrets_in_url
from standfast.core.incident import Evidence, Incident
from standfast.core.record import Kind, Record
from standfast.errors import StoreError, ValueNotStoredError
from standfast.incidents.book import changes_of, forget_outdated
from standfast.incidents.filing import Filing
from standfast.incidents.folding import Case, Cases
from standfast.incidents.keeping import Keeping
from standfast.incidents.known import secrets_of, without
from standfast.incidents.trimming import bounded, fit_evidence
from standfast.settings import Settings
from standfast.store.errand import arun_errand
from standfast.words import one_line
from standfast.worker.storecalls import StoreCalls

log = logging.getLogger(__name__)

REWRITE_EVERY = 5.0
"""Seconds between two writes of an incident that grows."""

DISK_PATIENCE = 1.0
"""Seconds that the first write to the store waits for the folder, to name it."""

LAST_WRITES = 1.0
"""Seconds for what the store does not have when the supervisor ends."""

SWEEP_SOON, SWEEP_EVERY = 60.0, 3600.0
"""Seconds between two looks for what is to be forgotten: while there are new incidents, and while not."""

LONGEST_SUMMARY = 500
_LONGEST_READ = 4 * LONGEST_SUMMARY


class Desk:
    """The incidents of one supervisor; without `filing` none of them goes to disk."""

    def __init__(
        self, clock: Clock | None = None, settings: Settings | None = None, *, filing: Filing | None = None
    ) -> None:
        self._clock: Clock = clock or SystemClock()
        self._filing = filing
        self._cases = Cases()
        self._some = asyncio.Event()
        self._told_lost = False
        self._swept_at = -math.inf
        self._sweep_at = math.inf
        self.learn(settings or Settings())

    def learn(self, settings: Settings) -> None:
        """Go on by these settings: an app's are known once its first child has told them."""
        self._keeping = Keeping.of(settings)
        self._scrub: Scrub = scrub_of(secrets_in_url(settings.url)) or NO_SECRETS
        if self._filing is not None:
            self._filing.learn(self._keeping)

    def report(self, incident: Incident, evidence: Evidence | None = None) -> str:
        """Take an incident in, and return the id under which it is kept. Never raises and never waits."""
        try:
            return self._take(incident, bounded(evidence or Evidence()))
        except Exception:  # what went wrong already must not bring down who tells of it
            log.exception("an incident could not be taken in")
            return incident.id

    def knows(self, incident: Incident) -> bool:
        """Tell whether an incident would be counted as one more of another, which has its own evidence."""
        return self._cases.knows(incident, self._clock.boot())

    async def run(self, calls: StoreCalls) -> None:
        """Write incidents as they come, now that there is a store to write them to."""
        pauses = calls.pauses()
        self._sweep_at = asyncio.get_running_loop().time() + SWEEP_EVERY
        try:
            while True:
                await self._until_some_are_due()
                if await self._write_due(calls):
                    pauses.reset()
                    self._tell_lost()
                    await self._sweep_in_turn(calls)
                else:
                    await asyncio.sleep(pauses.next())
        except asyncio.CancelledError:
            await self._write_the_last(calls)
            raise

    def close(self, seconds: float) -> None:
        """Wait until all is on disk, but no longer than this."""
        if self._filing is not None:
            for case in self._cases.waiting():
                self._bring_folder_up_to_date(case)
            self._filing.close(seconds)

    def _take(self, incident: Incident, evidence: Evidence) -> str:
        summary = redact_text(incident.summary[:_LONGEST_READ], self._scrub)
        incident = replace(incident, summary=one_line(summary, LONGEST_SUMMARY))
        case, is_new = self._cases.take(incident, evidence, self._clock.boot())
        if is_new and self._filing is not None:
            case.filed = self._filing.file(case.incident, evidence, self._scrub)
        self._some.set()
        if self._cases.lost and not self._told_lost:
            self._told_lost = True
            log.warning("the store is away and too many incidents wait for it: the oldest will be on disk only")
        return case.incident.id

    async def _until_some_are_due(self) -> None:
        now = asyncio.get_running_loop().time()
        due_at = min([self._sweep_at, *(case.due_at for case in self._cases.waiting())])
        if due_at > now:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(due_at):
                    await self._some.wait()
        self._some.clear()

    async def _write_due(self, calls: StoreCalls) -> bool:
        """Write what is due; tell whether the store answered."""
        now = asyncio.get_running_loop().time()
        for case in [each for each in self._cases.waiting() if each.due_at <= now]:
            try:
                await self._write(calls, case)
            except ValueNotStoredError as error:
                log.warning("incident %s stays on disk only: %s", case.incident.id, error)
                self._cases.drop(case)
            except StoreError:
                return False
        return True

    async def _write(self, calls: StoreCalls, case: Case) -> None:
        is_new = case.seen == 0
        if case.changes is None:
            evidence = await self._secured(calls, case) if is_new else None
            self._bring_folder_up_to_date(case)
            case.sent = case.incident
            case.changes = changes_of(case.incident, evidence, case.seen)
        *_, made = await calls.once(calls.verbs.change_records(case.changes))
        case.changes = None
        case.due_at = asyncio.get_running_loop().time() + REWRITE_EVERY
        if made:
            case.seen += 1
            case.evidence = Evidence()
            self._sweep_at = min(self._sweep_at, self._swept_at + SWEEP_SOON) if is_new else self._sweep_at
        else:
            await self._look_again(calls, case)

    async def _secured(self, calls: StoreCalls, case: Case) -> Evidence:
        """Return the evidence without the secrets of the jobs, of which only the store knows; also on disk."""
        evidence = await self._filed(case)
        scrub = await arun_errand(calls.once, secrets_of(calls.verbs, case.first.jobs))
        cleaned = without(scrub, evidence)
        case.incident = replace(case.incident, summary=scrub.text(case.incident.summary))
        if cleaned is not evidence and case.filed is not None and self._filing is not None:
            self._filing.update(case.incident, case.filed, cleaned)
        return cleaned

    async def _filed(self, case: Case) -> Evidence:
        """Return the evidence as it is to be kept; a disk that hangs is not waited for."""
        if case.filed is not None:
            await asyncio.wait([asyncio.wrap_future(case.filed.over)], timeout=DISK_PATIENCE)
            if case.filed.evidence is not None:
                return case.filed.evidence
        return fit_evidence(case.evidence, self._scrub)

    def _bring_folder_up_to_date(self, case: Case) -> None:
        if case.filed is not None and case.incident.folder != case.filed.folder:
            case.incident = replace(case.incident, folder=case.filed.folder)
        if case.filed is not None and self._filing is not None and case.incident.count > 1:
            self._filing.update(case.incident, case.filed)

    async def _look_again(self, calls: StoreCalls, case: Case) -> None:
        """See why a change was not made: somebody has forgotten the incident, and then so do we."""
        found: tuple[Record, ...] = await calls.once(calls.verbs.records(Kind.INCIDENT, (case.incident.id,)))
        if found:
            case.seen, case.sent = found[0].version, None
        else:
            self._cases.drop(case)

    def _tell_lost(self) -> None:
        if self._cases.lost:
            log.warning("%d incidents were not written to the store while it was away", self._cases.lost)
            self._cases.lost, self._told_lost = 0, False

    async def _sweep_in_turn(self, calls: StoreCalls) -> None:
        """Forget what is too much or too old, if it is time to look."""
        now = asyncio.get_running_loop().time()
        if now < self._sweep_at:
            return
        self._swept_at, self._sweep_at = now, now + SWEEP_EVERY
        if self._filing is not None:
            self._filing.sweep()
        with suppress(StoreError):
            await arun_errand(calls.once, forget_outdated(calls.verbs, self._keeping, self._clock.now()))

    async def _write_the_last(self, calls: StoreCalls) -> None:
        """Try to write what is left, for a moment: on disk it is already.

        What was under way is asked for again first, and what it has grown by since is written after that.
        """
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(LAST_WRITES):
                while waiting := self._cases.waiting():
                    for case in waiting:
                        await self._write(calls, case)
