"""Puts a worker together for its app, the same in a process of its own and inside a host, and tears it down."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import msgspec

from standfast.app import Standfast
from standfast.durable.files import file_store_of
from standfast.events import StopStage
from standfast.hosts.builtin import built_in_tasks
from standfast.hosts.lifespan import Entered, enter_lifespans, export_last_spans, leave_lifespans
from standfast.hosts.publication import (
    bring_in_declared,
    keep_published,
    warn_of_channels,
    warn_of_names,
    warn_of_unused_queues,
)
from standfast.model.clock import SystemClock
from standfast.model.configuration import Settings
from standfast.model.policy import Isolation
from standfast.model.redaction import redact_values
from standfast.observe.alerts.delivery import refuse_unusable
from standfast.observe.alerts.senders import Programs
from standfast.observe.figures.counts import Named, Tally, named_by
from standfast.observe.metrics.meter import Meter, MeteredTally
from standfast.observe.metrics.shared import SharedFolder
from standfast.settings import Loaded
from standfast.stores.backend import Backend, identity_of
from standfast.stores.url import absolute_url, open_backend
from standfast.worker.attempt import Workload
from standfast.worker.claim_log import ClaimLogFile
from standfast.worker.locks import SupervisedLocks
from standfast.worker.loops import BlockedLoopMonitor
from standfast.worker.messages import Configure, Hello, SocketChannel
from standfast.worker.ports import Alarms, Ports, Staged, finest_alarm, not_told
from standfast.worker.worker import Worker

if TYPE_CHECKING:
    from standfast.worker.isolation.pool import SubprocessPool


log = logging.getLogger(__name__)


def begin_metering(app: Standfast, configure: Configure, *, whole_app: bool) -> Meter | None:
    """Return what counts for metrics, if they are wanted. Without room for it jobs run all the same.

    `whole_app`: what goes through the app is counted, too; else that is somebody else's affair.
    """
    meter = _meter_for(configure)
    if meter is None:
        return None
    if whole_app:
        app.observe(meter.observe)
        app.events.subscribe(meter.hear, meter.hears)
    meter.know([(task.policy.queue, name) for name, task in app.tasks.items()])
    return meter


def _meter_for(configure: Configure) -> Meter | None:
    try:
        if configure.counts_dir:
            return SharedFolder(Path(configure.counts_dir)).meter()
        return Meter(Path(configure.counts)) if configure.counts else None
    except OSError as error:
        place = configure.counts_dir or configure.counts
        log.warning("this worker counts nothing for metrics: %s cannot be written: %s", place, error.strerror)
        return None


LAST_WORK = 1.0  # seconds for work that handlers have begun in the background, after the grace that their jobs had


@dataclass(frozen=True, slots=True)
class RuntimePlace:
    """Where a worker lives, as far as it makes a difference. `folder` is where its cells run.

    stays: its process lives on, so it is not over before its handlers are; locks: who keeps those of its handlers;
    staged: hears how far a stop is.
    """

    folder: str
    stays: bool = False
    locks: Callable[[SocketChannel, Path], SupervisedLocks] = SupervisedLocks
    alarms: Alarms = finest_alarm
    staged: Staged = not_told


class WorkerRuntime:
    """One worker with all that it needs, inside a running event loop."""

    def __init__(
        self,
        app: Standfast,
        configure: Configure,
        channel: SocketChannel,
        place: RuntimePlace,
        *,
        loaded: Loaded,
        backend: Backend,
        lifespans: list[Entered],
        meter: Meter | None,
    ) -> None:
        self._app, self._configure, self._channel, self._place = app, configure, channel, place
        self._loaded, settings = loaded, loaded.settings
        self.settings, self.backend, self.meter = settings, backend, meter
        self._name = app.known_as = settings.name or configure.target
        self._lifespans = lifespans
        self._busy = _watch(app, settings)
        self._random = random = Random()  # noqa: S311 - jitter
        self._pool: SubprocessPool | None = None
        if not configure.group and any(task.policy.isolation is Isolation.PROCESS for task in app.tasks.values()):
            self._subprocesses()
        self._locks = app.deputy = place.locks(channel, Path(configure.kept))
        busy = (lambda _: None) if self._busy is None else self._busy.watch
        ports = Ports(
            backend,
            channel,
            ClaimLogFile(Path(configure.notes)),
            SystemClock(),
            random,
            app.events,
            file_store_of(settings, partial(identity_of, backend)),
            place.alarms,
            busy,
            self._subprocesses,
            place.staged,
            partial(Tally if meter is None else partial(MeteredTally, meter), named=_named(app)),
        )
        self._programs = Programs()
        workload = Workload(
            tasks=app.tasks,
            built_in=built_in_tasks(app, lambda: self.worker.now(), self._programs, self._name),  # noqa: PLW0108 - there is none yet
            served=configure.queues,
            middleware=app.middlewares,
            hours=app.windows,
            limits=app.limits,
            tracing=app.tracing,
        )
        self.worker: Worker = Worker(
            configure.worker, workload, settings, ports, group=configure.group, stays=place.stays
        )
        if settings.incident_locals:
            self.worker.unhandled.show_locals = redact_values

    @classmethod
    async def begin(
        cls, app: Standfast, configure: Configure, channel: SocketChannel, place: RuntimePlace
    ) -> "WorkerRuntime":
        """Open the store and enter the lifespans. Raises StandfastError where that cannot be."""
        loaded = _settings(app, configure)
        channels = app.watching.channels
        refuse_unusable(channels)
        backend = open_backend(loaded.settings)  # not the app's own, which a handler may close
        meter = begin_metering(app, configure, whole_app=not place.stays)
        if meter is not None:
            backend.observe(meter.observe)
        lifespans: list[Entered] = []
        try:
            lifespans = await enter_lifespans(app)
            if not configure.group:
                warn_of_unused_queues(app, configure.queues)
                warn_of_channels(channels)
                warn_of_names(app, configure.queues)
            return cls(
                app, configure, channel, place, loaded=loaded, backend=backend, lifespans=lifespans, meter=meter
            )
        except BaseException:
            if meter is not None:
                meter.close()
            await leave_lifespans(lifespans)
            raise

    def _subprocesses(self) -> "SubprocessPool":
        """Return the pool for isolated tasks, made when it is needed first: most apps never load it."""
        if self._pool is None:
            from standfast.worker.isolation.messages import Furnish  # noqa: PLC0415 - most apps never need it
            from standfast.worker.isolation.pool import SubprocessPool  # noqa: PLC0415

            configure = self._configure
            furnish = Furnish(
                configure.worker,
                configure.target,
                configure.app_dir,
                self.settings,
                self._place.folder,
                configure.logs,
            )
            self._pool = SubprocessPool(furnish, SystemClock(), self._random, self._channel.send)
        return self._pool

    def hello(self) -> Hello:
        """Return the first word: a process that is not ours is not replaced when it is old or large."""
        app = self._app
        watching = msgspec.structs.replace(app.watching, app=self._name)
        if self._place.stays:
            kept = msgspec.structs.replace(self.settings, recycle_age=None, recycle_jobs=None, recycle_memory=None)
            return Hello(kept, len(app.tasks), tuple(app.windows), watching=watching)
        return Hello(self.settings, len(app.tasks), tuple(app.windows), app.recycle_rules, watching)

    async def run(self) -> None:
        """Say hello, work until stopped, and tear down."""
        app, worker, declaring = self._app, self.worker, None
        self._channel.send(self.hello())
        if not self._configure.group:
            declaring = asyncio.create_task(self._tell_store())
        try:
            try:
                await worker.run()
            finally:
                await self._tear_down()
        finally:
            if declaring is not None:
                declaring.cancel()
            worker.unhandled.tell_all()
            if app.deputy is self._locks:
                app.deputy = None
            if self._busy is not None:
                self._busy.end()

    async def _tell_store(self) -> None:
        """Bring in what the app declares, and publish what it consists of."""
        app, target = self._app, self._configure.target
        await bring_in_declared(app, target, self.settings, self.backend, self.worker)
        await keep_published(app, target, self._loaded, self.backend, self.worker)

    async def _tear_down(self) -> None:
        """End what the worker has used, also where it failed: a host goes on, and begins another."""
        if self._place.stays:
            await self.worker.quiet()  # its code may still run: nobody may be told otherwise
        elif self._app.backgrounds:
            await self._app.background.aclose(LAST_WORK)
        self._programs.kill()  # of deliveries that did not end within the grace: others make them again
        self._place.staged(StopStage.CLOSING, 0)
        await asyncio.gather(
            leave_lifespans(self._lifespans), *([] if self._pool is None else [self._pool.close()])
        )
        if not self._place.stays:
            await export_last_spans(self._app.tracing)


def folder_here() -> str:
    """Return the folder in which this process is: the app, once loaded, may go elsewhere."""
    with suppress(FileNotFoundError):
        return str(Path.cwd())
    return "/"


def _settings(app: Standfast, configure: Configure) -> Loaded:
    """Return the app's settings with what the command line set differently, checked again."""
    loaded = Loaded(app.settings, app.settings_from)
    options = {name: getattr(configure, name) for name in ("lease", "grace", "concurrency")}
    loaded = loaded.overridden(**options)
    settings = loaded.settings
    files = None if settings.files is None else str(Path(settings.files).absolute())
    return Loaded(msgspec.structs.replace(settings, url=absolute_url(settings.url), files=files), loaded.where)


def _named(app: Standfast) -> Named:
    """Return what of the app's jobs is counted by name, however many there are."""
    watching = app.watching
    return named_by((*watching.rules, *watching.objectives))


def _watch(app: Standfast, settings: Settings) -> BlockedLoopMonitor | None:
    """Return what sees to it that no job blocks the event loop unnoticed."""
    if not settings.blocked_warning:
        return None
    return BlockedLoopMonitor(settings.blocked_warning, app.events.emit)
