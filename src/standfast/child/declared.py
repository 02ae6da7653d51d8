"""Brings the schedules and windows that an app declares into the store, beside the first work of its worker."""

import asyncio
import logging
import os
import socket
from datetime import timedelta
from random import Random

from standfast.app import Standfast
from standfast.core.incident import Incident, Trouble
from standfast.errors import StoreError
from standfast.events import ReleaseOlder, ScheduleDeclared, ScheduleForeign, ScheduleShared, WindowDeclared
from standfast.ids import new_job_id
from standfast.incidents.book import write_incident
from standfast.patience import Pauses
from standfast.schedule.declaring import Declarer, Synchronised, release_of, synchronise
from standfast.schedule.words import describe
from standfast.settings import Settings
from standfast.store.backend import Backend
from standfast.store.errand import arun_errand
from standfast.words import counted, one_line
from standfast.worker.worker import Worker

log = logging.getLogger(__name__)

LOOK_AGAIN = 300.0
"""Seconds until a worker looks again whether those have gone whose schedules it does not declare."""

NAMED = 5
"""So many schedules are named in an alert."""


async def bring_in_declared(
    app: Standfast, target: str, settings: Settings, backend: Backend, worker: Worker
) -> None:
    """Wait until the worker is known to the store, and synchronise; tell what became of each declaration.

    An app that was given no name has that of its `target`.
    """
    await worker.renewed()
    declared = app.declarations, app.windows
    ahead = timedelta(seconds=settings.look_ahead)
    code = release_of(*declared)
    who = Declarer(
        settings.name or target,
        settings.release or code,
        worker.id,
        ahead,
        code=None if settings.name else code,
    )
    pauses = Pauses(Random())  # noqa: S311 - jitter
    kept = set[str]()
    while True:
        try:
            done = await arun_errand(backend.arun, synchronise(backend.verbs, who, *declared))
        except StoreError:  # the claims say what is wrong
            await asyncio.sleep(pauses.next())
        except Exception:
            log.exception("what this app declares could not be brought into the store")
            return
        else:
            _tell(app, who, done)
            worker.ask_for_beat()  # a schedule that is new may be due before the next one
            for name in done.kept.keys() - kept:
                app.events.emit(ScheduleShared(name, who.app, done.kept[name]))
            if done.outlived is not None and done.retired:
                await _alert(backend, _retirement(worker, who, done, done.outlived))
            if not done.kept:
                return
            kept |= done.kept.keys()
            await asyncio.sleep(LOOK_AGAIN)


async def _alert(backend: Backend, incident: Incident) -> None:
    """Write an incident, of which the rule about incidents alerts people."""
    pauses = Pauses(Random())  # noqa: S311 - jitter
    while True:
        try:
            return await arun_errand(backend.arun, write_incident(backend.verbs, incident))
        except StoreError:  # the claims say what is wrong
            await asyncio.sleep(pauses.next())


def _retirement(worker: Worker, who: Declarer, done: Synchronised, outlived: str) -> Incident:
    """Return the incident of schedules that were retired while workers live that declare them."""
    names = [one_line(schedule.name) for schedule in done.retired]
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return Incident(
        id=new_job_id(),
        trouble=Trouble.RETIRED,
        summary=f"release {who.release} of {who.app} has retired {counted(len(names), 'schedule')} while workers of"
        f" release {outlived} live that declare them: {', '.join(names[:NAMED])}{more}",
        at=worker.now(),
        last_at=worker.now(),
        host=socket.gethostname(),
        worker=worker.id,
        pid=os.getpid(),
    )


def _tell(app: Standfast, who: Declarer, done: Synchronised) -> None:
    for what, schedules in (("added", done.added), ("changed", done.changed), ("retired", done.retired)):
        for schedule in schedules:
            app.events.emit(ScheduleDeclared(schedule.name, what, str(describe(schedule.plan.rule))))
    for window in done.windows:
        app.events.emit(WindowDeclared(window.about, window.name, window.what, window.words))
    for name in done.foreign:
        app.events.emit(ScheduleForeign(name))
    if done.outlived is not None:
        for schedule in done.retired:
            app.events.emit(ScheduleShared(schedule.name, who.app, done.outlived, who.release))
    if done.newer is not None:
        app.events.emit(ReleaseOlder(who.release, done.newer))
