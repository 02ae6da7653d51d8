"""Exceptions that ended work in the background become lines in the log, and incidents on disk and in the store."""

import asyncio
import logging
import os
import socket
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from standfast.durable.runtime import current_attempt
from standfast.hosts.background.group import ExceptionReporter
from standfast.hosts.background.work import Work
from standfast.model.ids import new_job_id
from standfast.model.incidents import Evidence, Incident
from standfast.model.redaction import redact_values
from standfast.observe.incidents import Retention
from standfast.supervisor.incidents.folders import FolderWriter
from standfast.supervisor.incidents.recorder import IncidentRecorder
from standfast.worker.messages import Noticed
from standfast.worker.storecalls import StoreCalls
from standfast.worker.unhandled import ErrorSource, UnhandledErrors, attempt_of

if TYPE_CHECKING:
    from standfast.app import Standfast

log = logging.getLogger(__name__)

DISK_PATIENCE = 1.0
"""Seconds for the folders of incidents when the app is closed."""


def report_exceptions(reporter: ExceptionReporter, app: "Standfast", *, to_disk: bool) -> None:
    """Tell of all that a reporter hears, until it is closed."""
    asyncio.run(_tell(reporter, app, to_disk=to_disk))


async def _tell(reporter: ExceptionReporter, app: "Standfast", *, to_disk: bool) -> None:
    filing = FolderWriter(Retention.of(app.settings), app.clock) if to_disk else None
    recorder = IncidentRecorder(app.clock, app.settings, filing=filing)
    unhandled = UnhandledErrors(partial(_report, recorder, app), app.clock, tuple)
    if app.settings.incident_locals:
        unhandled.show_locals = redact_values
    writing = asyncio.create_task(_write(recorder, app))
    await asyncio.sleep(0)  # it has to begin: one that is cancelled before would not write the last either
    some, loop = asyncio.Event(), asyncio.get_running_loop()
    reporter.wake = partial(loop.call_soon_threadsafe, some.set)
    while True:
        closed = reporter.closed  # before looking: what was heard before the close is there
        while reporter.heard_of:
            work, error = reporter.heard_of.popleft()
            unhandled.heard(error, partial(_about, work), partial(_whose, work), scrub=work.call.scrub)
            del work, error
        if closed:
            break
        await some.wait()
        some.clear()
    unhandled.tell_all()
    writing.cancel()
    await asyncio.wait([writing])
    if not writing.cancelled() and (failure := writing.exception()) is not None:
        log.error("incidents could not be written to the store", exc_info=failure)
    recorder.close(DISK_PATIENCE)


async def _write(recorder: IncidentRecorder, app: "Standfast") -> None:
    try:
        random = Random()  # noqa: S311 - jitter
        calls = StoreCalls(app.backend, app.clock, app.events, random, app.settings.store_timeout)
    except Exception:
        log.exception("incidents cannot be written to the store, which cannot be opened")
        return
    await recorder.run(calls)


def _report(recorder: IncidentRecorder, app: "Standfast", noticed: Noticed) -> None:
    now = app.clock.now()
    incident = Incident(
        id=new_job_id(),
        trouble=noticed.trouble,
        summary=noticed.summary,
        at=now,
        last_at=now,
        count=noticed.count,
        host=socket.gethostname(),
        pid=os.getpid(),
        jobs=noticed.jobs,
        fingerprint=noticed.fingerprint,
    )
    recorder.report(incident, Evidence(noticed.parts))


def _about(work: Work[Any]) -> dict[str, str]:
    begun = "" if work.started_at is None else f"{work.started_at:%Y-%m-%d %H:%M:%S %Z}"
    return {"where": f"work in the background, {work.name}", "begun at": begun, "work": work.id}


def _whose(work: Work[Any]) -> ErrorSource | None:
    """Return the attempt that began it, if there was one."""
    return attempt_of(work.context.get(current_attempt))
