"""The part of a worker's life that is the same in a process of its own and inside a host: from its first word on.

begun: its lifespans are entered, all is put together ─► run: it says hello, works, tears down ─► over
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

import msgspec

from standfast.alerts.delivery import refuse_unusable
from standfast.app import Standfast
from standfast.child.builtin import WithBuiltIn
from standfast.child.catalogued import keep_published
from standfast.child.cells import CellKeeper
from standfast.child.declared import bring_in_declared
from standfast.child.doubtful import warn_of_channels, warn_of_names, warn_of_unused_queues
from standfast.child.lastspans import export_last_spans
from standfast.child.lifespan import Entered, enter_lifespans, leave_lifespans
from standfast.child.metering import begin_metering
from standfast.clock import SystemClock
from standfast.codec.redaction import redact_values
from standfast.events import StopStage
from standfast.figures.counting import Tally
from standfast.figures.named import Named, named_by
from standfast.metrics.backend import MeteredBackend
from standfast.metrics.meter import Meter
from standfast.metrics.tally import MeteredTally
from standfast.settings import Loaded, Settings
from standfast.store.backend import Backend
from standfast.store.open import absolute_url, open_backend
from standfast.worker.alarm import Alarms, finest_alarm
from standfast.worker.channel import SocketChannel
from standfast.worker.lockkeeping import SupervisedLocks
from standfast.worker.loopwatch import LoopWatch
from standfast.worker.messages import Configure, Hello
from standfast.worker.notefile import FileLog
from standfast.worker.ports import Ports, Staged, not_told
from standfast.worker.worker import Worker

LAST_WORK = 1.0
"""Seconds for work that handlers have begun in the background, after the grace that their jobs had."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a worker lives, as far as it makes a difference. `folder` is where its cells run.

    stays: its process lives on, so it is not over before its handlers are; locks: who keeps those of its handlers;
    staged: hears how far a stop is.
    """

    folder: str
    stays: bool = False
    locks: Callable[[SocketChannel, Path], SupervisedLocks] = SupervisedLocks
    alarms: Alarms = finest_alarm
    staged: Staged = not_told


class WorkingLife:
    """One worker with all that it needs, inside a running event loop."""

    def __init__(
        self,
        app: Standfast,
        configure: Configure,
        channel: SocketChannel,
        *,
        loaded: Loaded,
        backend: Backend,
        lifespans: list[Entered],
        place: Place,
        meter: Meter | None = None,
    ) -> None:
        self._app = app
        self._configure = configure
        self._channel = channel
        self._loaded, settings = loaded, loaded.settings
        self.settings = settings
        self._name = app.known_as = settings.name or configure.target
        self._lifespans = lifespans
        self._stays = place.stays
        self._staged = place.staged
        self._busy = _watch(app, settings)
        self.backend = backend
        self.meter = meter
        random = Random()  # noqa: S311 - jitter
        notes = FileLog(Path(configure.notes))
        self._cells = CellKeeper(app, configure, settings, channel, random, folder=place.folder)
        self._locks = app.deputy = place.locks(channel, Path(configure.kept))
        busy = (lambda _: None) if self._busy is None else self._busy.watch
        ports = Ports(
            backend,
            channel,
            notes,
            SystemClock(),
            random,
            app.events,
            place.alarms,
            busy,
            self._cells.pool,
            place.staged,
            partial(Tally if meter is None else partial(MeteredTally, meter), named=_named(app)),
        )
        tasks = WithBuiltIn(app, lambda: self.worker.now(), self._name)  # noqa: PLW0108 - there is none yet
        self._programs = tasks.programs
        self.worker = Worker(
            configure.worker,
            tasks,
            settings,
            ports,
            served=configure.queues,
            group=configure.group,
            middleware=app.middlewares,
            hours=app.windows,
            stays=place.stays,
            limits=app.limits,
            tracing=app.tracing,
        )
        if settings.incident_locals:
            self.worker.strays.show_locals = redact_values

    @classmethod
    async def begin(
        cls, app: Standfast, configure: Configure, channel: SocketChannel, place: Place
    ) -> "WorkingLife":
        """Open the store and enter the lifespans. Raises StandfastError where that cannot be."""
        loaded = _settings(app, configure)
        channels = app.watching.channels
        refuse_unusable(channels)
        backend = open_backend(loaded.settings)  # not the app's own, which a handler may close
        meter = begin_metering(app, configure, whole_app=not place.stays)
        if meter is not None:
            backend = MeteredBackend(backend, meter)
        lifespans: list[Entered] = []
        try:
            lifespans = await enter_lifespans(app)
            if not configure.group:
                warn_of_unused_queues(app, configure.queues)
                warn_of_channels(channels)
                warn_of_names(app, configure.queues)
            return cls(
                app,
                configure,
                channel,
                loaded=loaded,
                backend=backend,
                lifespans=lifespans,
                place=place,
                meter=meter,
            )
        except BaseException:
            if meter is not None:
                meter.close()
            await leave_lifespans(lifespans)
            raise

    def hello(self) -> Hello:
        """Return the first word: a process that is not ours is not replaced when it is old or large."""
        app = self._app
        watching = msgspec.structs.replace(app.watching, app=self._name)
        if self._stays:
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
            worker.strays.tell_all()
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
        if self._stays:
            await self.worker.quiet()  # its code may still run: nobody may be told otherwise
        elif self._app.backgrounds:
            await self._app.background.aclose(LAST_WORK)
        self._programs.kill()  # of deliveries that did not end within the grace: others make them again
        self._staged(StopStage.CLOSING, 0)
        await asyncio.gather(leave_lifespans(self._lifespans), self._cells.close())
        if not self._stays:
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


def _watch(app: Standfast, settings: Settings) -> LoopWatch | None:
    """Return what sees to it that no job blocks the event loop unnoticed."""
    if not settings.blocked_warning:
        return None
    return LoopWatch(settings.blocked_warning, app.events.emit)
