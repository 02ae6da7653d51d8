"""The child process itself: `python -m holdfast.child FD`, started by a supervisor.

It hears on the inherited socket which app to load, says hello, and works until it is told to stop. It always ends
by `os._exit`: a handler's thread that does not stop must not keep the process, whose claims wait to be released.
"""

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec

from holdfast.app import Holdfast
from holdfast.child.blackbox import open_blackbox
from holdfast.child.canary import WithCanary
from holdfast.child.cells import CellKeeper
from holdfast.child.declared import bring_in_declared
from holdfast.child.excepthooks import hear_strays
from holdfast.child.leaving import leave, live
from holdfast.child.lifespan import enter_lifespans, leave_lifespans
from holdfast.child.loading import load_app
from holdfast.child.unused import warn_of_unused_queues
from holdfast.clock import SystemClock
from holdfast.errors import HoldfastError
from holdfast.incidents.redaction import redact_values
from holdfast.settings import Loaded, Settings
from holdfast.store.open import absolute_url, open_backend
from holdfast.watch.attach import attach_logs
from holdfast.worker.alarm import finest_alarm
from holdfast.worker.channel import SocketChannel
from holdfast.worker.lockkeeping import SupervisedLocks
from holdfast.worker.logring import keep_log_ring
from holdfast.worker.logtail import keep_log_tails
from holdfast.worker.loopwatch import LoopWatch
from holdfast.worker.messages import Configure, Failed, Hello
from holdfast.worker.notefile import FileLog
from holdfast.worker.worker import Ports, Worker

ORPHAN_CHECK = 0.2

LAST_LINES = 1.0
"""Seconds for what was said last to reach the terminal."""

LAST_WORK = 1.0
"""Seconds for work that handlers have begun in the background, after the grace that their jobs had."""


def main() -> None:
    """Run the child; never returns."""
    end = socket.socket(fileno=int(sys.argv[1]))
    # Ctrl-C and the end of a terminal reach the whole group, and the supervisor decides. Not SIG_IGN, which
    # subprocesses would inherit.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    live(_child(end))


async def _child(end: socket.socket) -> None:
    channel = await SocketChannel.over(end)
    configure = await channel.receive()
    if not isinstance(configure, Configure):
        return
    open_blackbox(Path(configure.dump))
    folder = _folder()
    try:
        app = load_app(configure.target, configure.app_dir)
        settings = _settings(app, configure)
        backend = open_backend(settings)  # not the app's own, which a handler may close
        logs = attach_logs(app.events, configure.logs, configure.worker)
        lifespans = await enter_lifespans(app)
    except HoldfastError as error:
        channel.send(Failed(str(error), "".join(traceback.format_exception(error))))
        await channel.receive()  # the supervisor hangs up when it has heard
        return
    if not configure.alone:
        warn_of_unused_queues(app, configure.queues)
    keep_log_tails(logging.getLogger())
    keep_log_ring(Path(configure.log), logging.getLogger())
    random = Random()  # noqa: S311 - jitter
    notes = FileLog(Path(configure.notes))
    cells = CellKeeper(app, configure, settings, channel, random, folder=folder)
    app.deputy = SupervisedLocks(channel, Path(configure.kept))
    busy = _watch(app, settings)
    ports = Ports(backend, channel, notes, SystemClock(), random, app.events, finest_alarm, busy, cells.pool)
    worker = Worker(
        configure.worker,
        WithCanary(app.tasks, app),
        settings,
        ports,
        served=configure.queues,
        alone=configure.alone,
        middleware=app.middlewares,
        hours=app.windows,
        limits=app.limits,
    )
    if settings.incident_locals:
        worker.strays.show_locals = redact_values
    hear_strays(worker.strays, asyncio.get_running_loop())
    threading.Thread(target=_end_when_orphaned, args=(os.getppid(), worker), daemon=True).start()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: worker.retire(settings.grace))
    channel.send(Hello(settings, len(app.tasks), tuple(app.windows), app.recycle_rules))
    declaring = None
    if not configure.alone:
        declaring = asyncio.create_task(bring_in_declared(app, configure.target, settings, backend, worker))
    try:
        await worker.run()
        if app.backgrounds:
            await app.background.aclose(LAST_WORK)
        await asyncio.gather(leave_lifespans(lifespans), cells.close())
    finally:
        if declaring is not None:
            declaring.cancel()
        worker.strays.tell_all()
        logs.close(LAST_LINES)
    leave(0)


def _folder() -> str:
    """Return the folder in which this process is: the app, once loaded, may go elsewhere."""
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return "/"


def _settings(app: Holdfast, configure: Configure) -> Settings:
    """Return the app's settings with what the command line set differently, checked again."""
    loaded = Loaded(app.settings, app.settings_from)
    options = {name: getattr(configure, name) for name in ("lease", "grace", "concurrency")}
    settings = loaded.overridden(**options).settings
    files = None if settings.files is None else str(Path(settings.files).absolute())
    return msgspec.structs.replace(settings, url=absolute_url(settings.url), files=files)


def _watch(app: Holdfast, settings: Settings) -> Callable[[bool], None]:
    """Return what hears whether jobs run, and then sees to it that none of them blocks the event loop unnoticed."""
    if not settings.blocked_warning:
        return lambda _: None
    return LoopWatch(settings.blocked_warning, app.events.emit).watch


def _end_when_orphaned(parent: int, worker: Worker) -> None:
    """End a child that hangs so badly that it does not notice the death of its supervisor, before others start."""
    while os.getppid() == parent or not worker.lost:
        time.sleep(ORPHAN_CHECK)
    os._exit(1)


if __name__ == "__main__":
    main()
