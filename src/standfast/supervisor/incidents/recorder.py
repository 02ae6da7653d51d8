"""Records incidents of a supervisor: on disk at once, in the store when it answers, repetitions counted."""

import asyncio
import logging
import math
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from standfast.errors import StoreError, ValueNotStoredError
from standfast.model.clock import Clock, SystemClock
from standfast.model.configuration import Settings
from standfast.model.display import one_line
from standfast.model.incidents import Evidence, Incident, InvolvedJob
from standfast.model.job import Job
from standfast.model.records import Change, Kind, Record
from standfast.model.redaction import redact_text, scrub_of, secrets_in_url, texts_in
from standfast.model.secrets import NO_SECRETS, Scrub
from standfast.observe.incidents import Retention, changes_of, forget_outdated
from standfast.stores.contract import Store
from standfast.stores.verb import Verbs, arun_procedure, procedure
from standfast.supervisor.incidents.folders import Filed, FolderWriter, bounded, fit_evidence
from standfast.worker.storecalls import StoreCalls

_MOST_JOBS = 50  # jobs whose payloads are read for it


class _Payload(msgspec.Struct):
    secret: dict[str, Any] = {}


@procedure
def secrets_of(verbs: Store, jobs: Iterable[InvolvedJob]) -> Verbs[Scrub]:
    """Return what removes the secret arguments of jobs, as far as these are in the store."""
    secrets: set[str] = set()
    for job_id in list(dict.fromkeys(job.job_id for job in jobs))[:_MOST_JOBS]:
        job: Job | None = yield verbs.get(job_id)
        if job is not None and b'"secret"' in job.payload:
            secrets.update(texts_in(_secret_part(job.payload)))
    return scrub_of(secrets) if secrets else NO_SECRETS


def without(scrub: Scrub, evidence: Evidence) -> Evidence:
    """Return evidence without these secrets; the same where it has none of them."""
    cleaned = Evidence({name: scrub.text(text) for name, text in evidence.parts.items()}) if scrub else evidence
    return evidence if cleaned == evidence else cleaned


def _secret_part(payload: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(payload, type=_Payload).secret
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}  # what cannot be read was given to no handler


# new ─► waiting ─(written)─► settled ─(the same again)─► waiting; a waiting case beyond the limit is lost

SAME_WITHIN = 600.0  # seconds after the last time within which the same trouble is one more of the same incident
MOST_WAITING = 100  # incidents that wait for a store that is away; of more, the oldest are given up
MOST_REMEMBERED = 300  # incidents to which more of the same may be added
MOST_JOBS = 50  # jobs that an incident names when it has happened again: the last of them


@dataclass(slots=True)
class Case:
    """An incident on hand: as it is now, and as far as it was written.

    heard_at: by the boot clock; first: as it was when the evidence was secured; due_at: when, by the loop's, it is
    to be written; seen: its version in the store; changes: what was sent there, until it is answered; sent: what
    these say, or the last that were answered.
    """

    incident: Incident
    evidence: Evidence
    heard_at: float
    first: Incident
    due_at: float = -math.inf
    filed: Filed | None = None
    seen: int = 0
    changes: tuple[Change, ...] | None = None
    sent: Incident | None = None

    @property
    def waits(self) -> bool:
        """Whether the store does not have all of it."""
        return self.changes is not None or self.sent is not self.incident


class Cases:
    """All cases of one desk, in the order in which they were opened."""

    def __init__(self) -> None:
        self._cases: dict[str, Case] = {}
        self._open: dict[tuple[str, ...], Case] = {}
        self.lost = 0  # how many were given up before the store had them

    def take(self, incident: Incident, evidence: Evidence, now: float) -> tuple[Case, bool]:
        """Return the case that an incident belongs to, and whether it is a new one."""
        case = self._same(incident, now)
        if case is not None:
            case.incident, case.heard_at = folded(case.incident, incident), now
            return case, False
        case = Case(incident, evidence, now, incident)
        self._cases[incident.id] = self._open[_sameness(incident)] = case
        self._make_room()
        return case, True

    def knows(self, incident: Incident, now: float) -> bool:
        """Tell whether an incident would be one more of a case that is there."""
        return self._same(incident, now) is not None

    def waiting(self) -> list[Case]:
        """Return those that the store does not have, or not all of."""
        return [case for case in self._cases.values() if case.waits]

    def drop(self, case: Case) -> None:
        """Let go of a case: the same again is a new one."""
        self._cases.pop(case.incident.id, None)
        if self._open.get(_sameness(case.incident)) is case:
            del self._open[_sameness(case.incident)]

    def _same(self, incident: Incident, now: float) -> Case | None:
        case = self._open.get(_sameness(incident))
        return case if case is not None and now - case.heard_at <= SAME_WITHIN else None

    def _make_room(self) -> None:
        waiting = self.waiting()
        for case in waiting[: max(0, len(waiting) - MOST_WAITING)]:
            self.drop(case)
            self.lost += 1
        settled = [case for case in self._cases.values() if not case.waits]
        for case in settled[: max(0, len(self._cases) - MOST_REMEMBERED)]:
            self.drop(case)


def folded(first: Incident, again: Incident) -> Incident:
    """Return an incident that has happened again; of many jobs it names the last, and counts the others."""
    known = {(job.job_id, job.fence) for job in first.jobs}
    jobs = first.jobs + tuple(job for job in again.jobs if (job.job_id, job.fence) not in known)
    return replace(
        first,
        count=first.count + again.count,
        last_at=max(first.last_at, again.last_at),
        jobs=jobs[-MOST_JOBS:],
        more_jobs=first.more_jobs + again.more_jobs + max(0, len(jobs) - MOST_JOBS),
    )


def _sameness(incident: Incident) -> tuple[str, ...]:
    """Return what is the same for the same trouble; one without a fingerprint is like no other."""
    return (incident.trouble, incident.fingerprint or incident.id, incident.host)


# Each incident goes to disk at once and to the store when that answers. The same trouble soon after only adds to the
# count of the first. The whole count is written with the same token until it is answered, so nothing counts twice.

log = logging.getLogger(__name__)
REWRITE_EVERY = 5.0  # seconds between two writes of an incident that grows
DISK_PATIENCE = 1.0  # seconds that the first write to the store waits for the folder, to name it
LAST_WRITES = 1.0  # seconds for what the store does not have when the supervisor ends
SWEEP_SOON, SWEEP_EVERY = 60.0, 3600.0
"""Seconds between two looks for what is to be forgotten: while there are new incidents, and while not."""

LONGEST_SUMMARY = 500
_LONGEST_READ = 4 * LONGEST_SUMMARY


class IncidentRecorder:
    """The incidents of one supervisor; without `filing` none of them goes to disk."""

    def __init__(
        self, clock: Clock | None = None, settings: Settings | None = None, *, filing: FolderWriter | None = None
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
        self._keeping = Retention.of(settings)
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
        scrub = await arun_procedure(calls.once, secrets_of(calls.verbs, case.first.jobs))
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
            await arun_procedure(calls.once, forget_outdated(calls.verbs, self._keeping, self._clock.now()))

    async def _write_the_last(self, calls: StoreCalls) -> None:
        """Try to write what is left, for a moment: on disk it is already.

        What was under way is asked for again first, and what it has grown by since is written after that.
        """
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(LAST_WRITES):
                while waiting := self._cases.waiting():
                    for case in waiting:
                        await self._write(calls, case)
