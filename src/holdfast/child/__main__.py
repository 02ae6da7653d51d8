"""The child process itself: `python -m holdfast.child FD`, started by a supervisor.

It hears on the inherited socket which app to load, says hello, and works until it is told to stop. It always ends
by `os._exit`: a handler's thread that does not stop must not keep the process, whose claims wait to be released.
"""

import asyncio
import contextlib
import faulthandler
import os
import signal
import socket
import sys
import threading
import time
import traceback
from pathlib import Path
from random import Random

import msgspec

from holdfast.app import Holdfast
from holdfast.child.loading import load_app
from holdfast.clock import SystemClock
from holdfast.errors import HoldfastError
from holdfast.settings import Settings, load_settings
from holdfast.watch.attach import attach_console
from holdfast.worker.channel import SocketChannel
from holdfast.worker.messages import Configure, Failed, Hello
from holdfast.worker.notes import FileLog
from holdfast.worker.worker import Ports, Worker

ORPHAN_CHECK = 1.0


def main() -> None:
    """Run the child; never returns."""
    end = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the supervisor decides
    code = 1
    try:
        code = asyncio.run(_child(end))
    except BaseException:  # noqa: BLE001 - said here, because os._exit says nothing
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


async def _child(end: socket.socket) -> int:
    channel = await SocketChannel.over(end)
    configure = await channel.receive()
    if not isinstance(configure, Configure):
        return 1
    try:
        app = load_app(configure.target, configure.app_dir)
        settings = _settings(app, configure)
        backend = app.backend
    except HoldfastError as error:
        channel.send(Failed(str(error)))
        await channel.receive()  # the supervisor hangs up when it has heard
        return 1
    with Path(configure.dump).open("w") as dump:  # noqa: ASYNC230 - before there is anything to block
        faulthandler.register(signal.SIGUSR1, file=dump, all_threads=True)
        threading.Thread(target=_end_when_orphaned, args=(os.getppid(), settings), daemon=True).start()
        if configure.console:
            attach_console(app.events)
        ports = Ports(backend, channel, FileLog(Path(configure.notes)), SystemClock(), Random(), app.events)  # noqa: S311 - jitter
        worker = Worker(
            configure.worker, app.tasks, settings, ports, queues=configure.queues, alone=configure.alone
        )
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, lambda: worker.stop(settings.grace))
        channel.send(Hello(settings, len(app.tasks)))
        await worker.run()
    return 0


def _settings(app: Holdfast, configure: Configure) -> Settings:
    """Return the app's settings with what the command line set differently, checked again."""
    given = {
        name: value for name in ("lease", "grace", "concurrency") if (value := getattr(configure, name)) is not None
    }
    return load_settings({}, **{**msgspec.structs.asdict(app.settings), **given})


def _end_when_orphaned(parent: int, settings: Settings) -> None:
    """End a child that hangs so badly that it does not even notice the death of its supervisor."""
    while os.getppid() == parent:
        time.sleep(ORPHAN_CHECK)
    time.sleep(settings.grace + settings.lease)
    os._exit(1)


if __name__ == "__main__":
    main()
