"""One life of the worker inside a host: a thread with an event loop of its own, from its first word to its last.

A thread for each life, so that a handler which blocks one event loop does not keep the next life from beginning.
"""

import asyncio
import logging
import os
import socket
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from standfast.app import Standfast
from standfast.child.excepthooks import hear_loop
from standfast.child.working import Place, WorkingLife, folder_here
from standfast.errors import StandfastError
from standfast.events import HostReady, HostStopping, StopStage
from standfast.host.presence import Presence
from standfast.locks.holding import Holding, Kept
from standfast.store.open import public_name
from standfast.supervisor.parting import Parting
from standfast.worker.alarm import Alarm, finest_alarm
from standfast.worker.channel import SocketChannel
from standfast.worker.lockkeeping import SupervisedLocks
from standfast.worker.logtail import OUR_THREADS, Logged, logged_here
from standfast.worker.messages import Configure, Failed
from standfast.worker.worker import Worker

log = logging.getLogger(__name__)


class Life:
    """One worker incarnation in this process. `over` hears its end, in its thread, and what it failed of."""

    def __init__(
        self,
        app: Standfast,
        worker: str,
        presence: Presence,
        beater_pid: int,
        *,
        ready: Callable[[HostReady], None],
        over: Callable[["Life", str], None],
    ) -> None:
        self._app = app
        self.worker = worker
        self._presence = presence
        self._beater_pid = beater_pid
        self._ready = ready
        self._over = over
        self._loop: asyncio.AbstractEventLoop | None = None
        self._working: Worker | None = None
        self._asked: float | None = None
        self._files: tuple[socket.socket, int] | None = None

    @property
    def running(self) -> int:
        """How many handlers run."""
        return 0 if self._working is None else self._working.running

    def runs(self, attempt: Logged) -> bool:
        """Tell whether this attempt is one of those that run here."""
        return self._working is not None and self._working.runs(attempt)

    def begin(self, line: int, folder_lock: int) -> None:
        """Begin on this line; the lock keeps the folder of its notes for as long as it lives."""
        self._files = socket.socket(fileno=line), folder_lock
        threading.Thread(target=self._run, name=f"{OUR_THREADS}host-{self.worker}", daemon=True).start()

    def retire(self, grace: float) -> None:
        """Stop, from any thread; a life that has not begun to work stops as soon as it does."""
        self._asked = grace
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # it is over
                loop.call_soon_threadsafe(self._heed_stop)

    def forget(self) -> None:
        """Let go of it in a forked process, where its thread is not."""
        if self._files is not None:
            line, lock = self._files
            line.close()
            os.close(lock)

    def _run(self) -> None:
        assert self._files is not None
        line, lock = self._files
        error = ""
        try:
            asyncio.run(self._live(line))
        except BaseException as failure:  # a thread that ends says so, and the beater begins another
            error = f"{type(failure).__name__}: {failure}"
            log.exception("the worker inside this process failed; another is begun")
        finally:
            if self._working is not None:
                self._working.outlive_threads()
            self._files = None
            line.close()
            os.close(lock)
            self._over(self, error)

    async def _live(self, line: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        channel, alarms = await SocketChannel.over(line), OwnAlarms()
        try:
            configure = await channel.receive()
            if not isinstance(configure, Configure):
                return
            self._presence.write_stacks(Path(configure.dump))
            place = Place(folder_here(), stays=True, locks=AttemptLocks, alarms=alarms, staged=self._staged)
            try:
                life = await WorkingLife.begin(self._app, configure, channel, place)
            except StandfastError as error:
                channel.send(Failed(str(error), "".join(traceback.format_exception(error))))
                await channel.receive()  # the beater answers when it has heard
                return
            await self._work(life)
        finally:
            alarms.close()
            channel.close()

    async def _work(self, life: WorkingLife) -> None:
        self._presence.strays = life.worker.strays
        hear_loop(life.worker.strays, asyncio.get_running_loop())
        adaptive = self._app.limits.adaptive
        if adaptive is not None and not adaptive.watches:
            adaptive.watch_loop(asyncio.get_running_loop())  # it shares the interpreter with the requests
        beginning = asyncio.create_task(self._begin_work(life))
        try:
            await life.run()
        finally:
            beginning.cancel()
            Parting().close(life.backend)
            if life.meter is not None:
                life.meter.close()

    async def _begin_work(self, life: WorkingLife) -> None:
        self._working = life.worker
        self._heed_stop()
        await life.worker.renewed()
        settings, tasks = life.settings, len(self._app.tasks)
        store = public_name(settings.url)
        self._ready(HostReady(self.worker, os.getpid(), tasks, settings.concurrency, store, self._beater_pid))

    def _heed_stop(self) -> None:
        if self._working is not None and self._asked is not None:
            self._working.retire(self._asked)

    def _staged(self, stage: StopStage, running: int) -> None:
        self._app.events.emit(HostStopping(self.worker, os.getpid(), stage, running))


class OwnAlarms:
    """Makes alarms, and closes them all when a life is over: its process goes on."""

    def __init__(self) -> None:
        self._made: list[Alarm] = []

    def __call__(self, go_off: Callable[[], None]) -> Alarm:
        """Return the most exact alarm there is."""
        alarm = finest_alarm(go_off)
        self._made.append(alarm)
        return alarm

    def close(self) -> None:
        """Let none go off any more."""
        for alarm in self._made:
            alarm.close()


class AttemptLocks(SupervisedLocks):
    """Has the beater keep the locks of handlers alone: those of requests are needed when this life is over."""

    def keep(self, holding: Holding) -> Kept | None:
        """Have a place kept, if a handler holds it."""
        return None if logged_here() is None else super().keep(holding)
