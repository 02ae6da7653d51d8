"""Brings the schedules and windows that an app declares into the store, beside the first work of its worker."""

import asyncio
import logging
from datetime import timedelta
from random import Random

from holdfast.app import Holdfast
from holdfast.errors import StoreError
from holdfast.events import ReleaseOlder, ScheduleDeclared, ScheduleForeign, ScheduleShared, WindowDeclared
from holdfast.patience import Pauses
from holdfast.schedule.declaring import Declarer, Synchronised, release_of, synchronise
from holdfast.schedule.words import describe
from holdfast.settings import Settings
from holdfast.store.backend import Backend
from holdfast.store.errand import arun_errand
from holdfast.worker.worker import Worker

log = logging.getLogger(__name__)

LOOK_AGAIN = 300.0
"""Seconds until a worker looks again whether those have gone whose schedules it does not declare."""


async def bring_in_declared(
    app: Holdfast, target: str, settings: Settings, backend: Backend, worker: Worker
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
            _tell(app, who.release, done)
            worker.ask_for_beat()  # a schedule that is new may be due before the next one
            for name in done.kept.keys() - kept:
                app.events.emit(ScheduleShared(name, who.app, done.kept[name]))
            if not done.kept:
                return
            kept |= done.kept.keys()
            await asyncio.sleep(LOOK_AGAIN)


def _tell(app: Holdfast, release: str, done: Synchronised) -> None:
    for what, schedules in (("added", done.added), ("changed", done.changed), ("retired", done.retired)):
        for schedule in schedules:
            app.events.emit(ScheduleDeclared(schedule.name, what, str(describe(schedule.plan.rule))))
    for window in done.windows:
        app.events.emit(WindowDeclared(window.about, window.name, window.what, window.words))
    for name in done.foreign:
        app.events.emit(ScheduleForeign(name))
    if done.newer is not None:
        app.events.emit(ReleaseOlder(release, done.newer))
