"""`standfast worker`: a supervisor with real processes, real signals and the machine's clock."""

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path
from random import Random

from standfast.errors import ConfigurationError
from standfast.events import Events
from standfast.model.clock import SystemClock
from standfast.model.configuration import Settings
from standfast.observe.figures.counts import Tally
from standfast.observe.incidents import Retention
from standfast.observe.logs.attach import attach_logs
from standfast.settings import read_settings
from standfast.stores.url import open_backend
from standfast.supervisor.incidents.detector import IncidentDetector
from standfast.supervisor.incidents.folders import FolderWriter
from standfast.supervisor.incidents.recorder import IncidentRecorder
from standfast.supervisor.metrics import metered
from standfast.supervisor.plan import FileWatch, Plan, Ports
from standfast.supervisor.probes import surveyor_of
from standfast.supervisor.process import Folder, ProcessLauncher, memory_at_hand, private_folder
from standfast.supervisor.reaper import Reaper
from standfast.supervisor.supervisor import Supervisor
from standfast.supervisor.systemd import Notifier
from standfast.worker.options import WorkerOptions
from standfast.worker.storecalls import StoreCloser

_TERMINAL = "/dev/tty"


def has_terminal() -> bool:
    """Tell whether a terminal controls this process and can be used.

    When it is closed, the kernel takes it away from all of its processes before they hear of it.
    """
    with suppress(OSError):
        terminal = os.open(_TERMINAL, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        try:
            os.tcgetpgrp(terminal)
        finally:
            os.close(terminal)
        return True
    return False


LAST_LINES = 1.0  # seconds for what was said last to reach the terminal


def supervise(options: WorkerOptions) -> int:
    """Run workers until told to stop; return the exit code. Raises StandfastError when they cannot run."""
    closer = StoreCloser()
    with private_folder() as folder:
        asyncio.run(_supervise(options, folder, closer))
    closer.leave()
    return 0


async def _supervise(options: WorkerOptions, folder: Folder, closer: StoreCloser) -> None:
    events = Events()
    logs = attach_logs(events, options.logs)
    try:
        with metered(options.metrics, folder.path, events) as metering:
            early, clock = early_settings(), SystemClock()
            recorder = IncidentRecorder(clock, early, filing=FolderWriter(Retention.of(early), clock))
            ports = Ports(
                ProcessLauncher(options, folder, None if metering is None else metering.totals),
                open_backend if metering is None else metering.open_backend,
                clock,
                Random(),  # noqa: S311 - jitter
                events,
                IncidentDetector(clock, recorder),
                Reaper(),
                FileWatch(Path(options.app_dir)) if options.reload else None,
                close_backend=closer.close,
                memory=memory_at_hand,
                tally=Tally if metering is None else metering.tally,
                surveyor=surveyor_of,
            )
            supervisor = Supervisor(Plan(options.processes, options.queues, options.drain, early.hang_limit), ports)
            try:
                await _run(supervisor, options.alive_file)
            finally:
                recorder.close(LAST_LINES)
    finally:
        logs.close(LAST_LINES)


async def _run(supervisor: Supervisor, alive_file: Path | None) -> None:
    """Run a supervisor by the signals of this process, and tell whoever watches it how it is."""
    loop = asyncio.get_running_loop()
    notifier = Notifier(os.environ, supervisor.ready, alive_file, supervisor.draining)
    had_terminal, stays = has_terminal(), signal.getsignal(signal.SIGHUP) is signal.SIG_IGN

    def stop() -> None:
        notifier.stopping()
        supervisor.stop()

    def hang_up() -> None:
        nonlocal had_terminal
        had, had_terminal = had_terminal, has_terminal()
        if had_terminal or not had:
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


def early_settings() -> Settings:
    """Return the settings as far as they are known before a child has told those of the app."""
    try:
        return read_settings().settings
    except ConfigurationError:  # the first child will say it
        return Settings()
