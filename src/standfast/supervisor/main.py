"""`standfast worker`: a supervisor with real processes, real signals and the machine's clock."""

import asyncio
import os
import signal
from pathlib import Path
from random import Random

from standfast.clock import SystemClock
from standfast.errors import ConfigurationError
from standfast.events import Events
from standfast.figures.counting import Tally
from standfast.incidents.desk import Desk
from standfast.incidents.filing import Filing
from standfast.incidents.keeping import Keeping
from standfast.settings import Settings, read_settings
from standfast.store.open import open_backend
from standfast.supervisor.folder import Folder, private_folder
from standfast.supervisor.guard import Guard
from standfast.supervisor.memory import memory_at_hand
from standfast.supervisor.metering import Metering, metered
from standfast.supervisor.notify import Notifier
from standfast.supervisor.options import WorkerOptions
from standfast.supervisor.parting import Parting
from standfast.supervisor.plan import Plan, Ports
from standfast.supervisor.premises import surveyor_of
from standfast.supervisor.process import ProcessLauncher
from standfast.supervisor.supervisor import Supervisor
from standfast.supervisor.terminal import Terminal
from standfast.supervisor.watching import FileWatch
from standfast.supervisor.witness import Witness
from standfast.watch.attach import attach_logs

LAST_LINES = 1.0
"""Seconds for what was said last to reach the terminal."""


def supervise(options: WorkerOptions) -> int:
    """Run workers until told to stop; return the exit code. Raises StandfastError when they cannot run."""
    parting = Parting()
    with private_folder() as folder:
        asyncio.run(_supervise(options, folder, parting))
    parting.leave()
    return 0


async def _supervise(options: WorkerOptions, folder: Folder, parting: Parting) -> None:
    events = Events()
    logs = attach_logs(events, options.logs)
    try:
        with metered(options.metrics, folder.path, events) as metering:
            await _run(options, folder, parting, events, metering)
    finally:
        logs.close(LAST_LINES)


async def _run(
    options: WorkerOptions, folder: Folder, parting: Parting, events: Events, metering: Metering | None
) -> None:
    random, clock = Random(), SystemClock()  # noqa: S311 - jitter
    early = early_settings()
    desk = Desk(clock, early, filing=Filing(Keeping.of(early), clock))
    witness = Witness(clock, desk)
    watch = FileWatch(Path(options.app_dir)) if options.reload else None
    launcher = ProcessLauncher(options, folder, None if metering is None else metering.totals)
    opening = open_backend if metering is None else metering.open_backend
    tally = Tally if metering is None else metering.tally
    ports = Ports(
        launcher,
        opening,
        clock,
        random,
        events,
        witness,
        Guard(),
        watch,
        close_backend=parting.close,
        memory=memory_at_hand,
        tally=tally,
        surveyor=surveyor_of,
    )
    plan = Plan(options.processes, options.queues, options.drain, early.hang_limit)
    supervisor = Supervisor(plan, ports)
    loop = asyncio.get_running_loop()
    notifier = Notifier(os.environ, supervisor.ready, options.alive_file, supervisor.draining)
    terminal, stays = Terminal(), signal.getsignal(signal.SIGHUP) is signal.SIG_IGN

    def stop() -> None:
        notifier.stopping()
        supervisor.stop()

    def hang_up() -> None:
        if not terminal.is_gone():
            notifier.reloading()
            supervisor.reload()
        elif not stays:  # nohup says that a closed terminal is no reason to stop
            stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    loop.add_signal_handler(signal.SIGHUP, hang_up)
    telling = loop.create_task(notifier.run())
    try:
        await supervisor.run()
    finally:
        telling.cancel()
        notifier.stopping()
        desk.close(LAST_LINES)


def early_settings() -> Settings:
    """Return the settings as far as they are known before a child has told those of the app."""
    try:
        return read_settings().settings
    except ConfigurationError:  # the first child will say it
        return Settings()
