"""Brings the schedules and windows that an app declares into the store, publishes the app, and warns of slips."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from functools import partial
from random import Random
from typing import TypeVar

from standfast.admin.catalogue import catalogue_of
from standfast.app import Standfast
from standfast.errors import StoreError
from standfast.events import ReleaseOlder, ScheduleDeclared, ScheduleForeign, ScheduleShared, WindowDeclared
from standfast.hosts.builtin import CANARY
from standfast.model.backoff import RetryDelays
from standfast.model.configuration import Settings
from standfast.model.display import counted, one_line
from standfast.model.ids import new_job_id
from standfast.model.incidents import Incident, Trouble
from standfast.observe.alerts.alert_rules import unmatched_names
from standfast.observe.alerts.channel import Channel
from standfast.observe.alerts.delivery import DELIVER, QUEUE, doubts
from standfast.observe.catalogue import FRESH_FOR, other_signatures, publish
from standfast.observe.incidents import write_incident
from standfast.schedules.closed_hours import About
from standfast.schedules.declarations import Declarer, Synchronised, release_of, synchronise
from standfast.schedules.description import describe
from standfast.settings import Loaded
from standfast.stores.backend import Backend
from standfast.stores.verb import Procedure, arun_procedure
from standfast.worker.options import ServedQueues
from standfast.worker.worker import Worker

T = TypeVar("T")

log = logging.getLogger(__name__)
LOOK_AGAIN = 300.0  # seconds until a worker looks again whether those have gone whose schedules it does not declare
NAMED = 5  # so many schedules are named in an alert


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
        settings.name or target, settings.release or code, worker.id, ahead, code=None if settings.name else code
    )
    kept = set[str]()
    while True:
        try:
            done = await _until_answered(backend, lambda: synchronise(backend.verbs, who, *declared))
        except Exception:
            log.exception("what this app declares could not be brought into the store")
            return
        _tell(app, who, done)
        worker.ask_for_beat()  # a schedule that is new may be due before the next one
        for name in done.kept.keys() - kept:
            app.events.emit(ScheduleShared(name, who.app, done.kept[name]))
        if done.outlived is not None and done.retired:  # the rule about incidents alerts people
            incident = _retirement(worker, who, done, done.outlived)
            await _until_answered(backend, partial(write_incident, backend.verbs, incident))
        if not done.kept:
            return
        kept |= done.kept.keys()
        await asyncio.sleep(LOOK_AGAIN)


async def _until_answered(backend: Backend, make: Callable[[], Procedure[T]]) -> T:
    """Run a procedure, again and again until the store answers; the claims say what is wrong with it."""
    pauses = RetryDelays(Random())  # noqa: S311 - jitter
    while True:
        try:
            return await arun_procedure(backend.arun, make())
        except StoreError:
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


TRY_AGAIN = 60.0  # seconds after which it is tried again where the store did not answer
AGAIN = FRESH_FOR.total_seconds() + TRY_AGAIN
"""Seconds after which a worker that still lives says so again: what nobody publishes is forgotten some day."""


async def keep_published(app: Standfast, target: str, loaded: Loaded, backend: Backend, worker: Worker) -> None:
    """Publish now, and once a day. It is for people alone: where it fails that is told, and the worker goes on."""
    host = socket.gethostname()
    while True:
        try:
            catalogue = catalogue_of(app, loaded, target, host, worker.now())
            if await arun_procedure(backend.arun, publish(backend.verbs, catalogue)):
                others = await arun_procedure(backend.arun, other_signatures(backend.verbs, catalogue))
                for task, other in others.items():
                    log.warning(
                        "task %s has other parameters in %s: a worker of one may get jobs of the other; give one of"
                        " them another name=, or raise its version= if it is newer",
                        task,
                        other,
                    )
        except StoreError as error:
            log.warning("what this app consists of is not published yet, and is tried again: %s", error)
            await asyncio.sleep(TRY_AGAIN)
        except Exception:
            log.exception("what this app consists of could not be published")
            return
        else:
            await asyncio.sleep(AGAIN)


def warn_of_unused_queues(app: Standfast, served: ServedQueues | None) -> None:
    """Say which queues no task is declared for. No error: jobs get there by `options(queue=…)` all the same."""
    used = {QUEUE, *_queues_of(app)}
    unused = [name for name in (served.names if served else ()) if name not in used]
    if unused:
        log.warning(
            "no task of the app is declared for %s %s, named in --queues; it has tasks for %s",
            "queue" if len(unused) == 1 else "the queues",
            ", ".join(map(repr, unused)),
            ", ".join(map(repr, sorted(used - {QUEUE}))) or "none",
        )


def warn_of_channels(channels: Iterable[Channel]) -> None:
    """Say through which channels nobody will hear anything from here."""
    for doubt in doubts(channels):
        log.warning("%s: what goes through it is tried again, and fails", doubt)


def warn_of_names(app: Standfast, served: ServedQueues | None) -> None:
    """Say which rules and objectives are about something that is not there."""
    for doubt in name_doubts(app, served.names if served else ()):
        log.warning("%s", doubt)


def name_doubts(app: Standfast, queues: Iterable[str]) -> Iterator[str]:
    """Yield a line for each name in rules and objectives that nobody has; `queues` somebody has besides the app."""
    used = {QUEUE, *queues, *app.limits.queues, *_queues_of(app)}
    schedules = {declared.name for declared in app.declarations}
    yield from unmatched_names(
        app.watching, {"task": {DELIVER, CANARY, *app.tasks}, "queue": used, "schedule": schedules}
    )


def _queues_of(app: Standfast) -> Iterator[str]:
    """Yield the queues that an app has something for: tasks, schedules, windows."""
    yield from (task.policy.queue for task in app.tasks.values())
    yield from (declared.job.queue for declared in app.declarations)
    yield from (hours.name for hours in app.windows if hours.about is About.QUEUE)
