"""The child process: `python -m standfast.hosts.child FD`, started by a supervisor."""

import asyncio
import faulthandler
import logging
import os
import signal
import socket
import sys
import threading
import time
import traceback
from pathlib import Path

from standfast.errors import StandfastError
from standfast.hosts.bootstrap import RuntimePlace, WorkerRuntime, folder_here
from standfast.hosts.lifespan import leave, live
from standfast.hosts.loader import load_app
from standfast.observe.logs.attach import attach_logs
from standfast.observe.logs.job_log import keep_log_ring, keep_log_tails
from standfast.worker.excepthooks import install_excepthooks
from standfast.worker.messages import Configure, Failed, SocketChannel
from standfast.worker.worker import Worker


def open_blackbox(stacks: Path) -> None:
    """Have the stacks of all threads written to a file on a fatal signal, and on SIGUSR1."""
    preparing = stacks.with_suffix(".part")
    file = preparing.open("w")  # open as long as the process: there is no opening it any more when it is needed
    faulthandler.enable(file=file, all_threads=True)
    faulthandler.register(signal.SIGUSR1, file=file, all_threads=True)
    preparing.rename(stacks)  # from now on the signal does not end this process, and may be sent


# `python -m standfast.hosts.child FD` hears on the inherited socket which app to load, says hello, and works until
# it is told to stop. It ends by `os._exit`: a thread that does not stop must not keep the process, whose claims
# wait.

ORPHAN_CHECK = 0.2
LAST_LINES = 1.0  # seconds for what was said last to reach the terminal


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
    place = RuntimePlace(folder_here())
    try:
        app = load_app(configure.target, configure.app_dir)
        logs = attach_logs(app.events, configure.logs, configure.worker)
        runtime = await WorkerRuntime.begin(app, configure, channel, place)
    except StandfastError as error:
        channel.send(Failed(str(error), "".join(traceback.format_exception(error))))
        await channel.receive()  # the supervisor hangs up when it has heard
        return
    keep_log_tails(logging.getLogger())
    keep_log_ring(Path(configure.log), logging.getLogger())
    worker, loop = runtime.worker, asyncio.get_running_loop()
    install_excepthooks(worker.unhandled.heard, loop)
    threading.Thread(target=_end_when_orphaned, args=(os.getppid(), worker), daemon=True).start()
    loop.add_signal_handler(signal.SIGTERM, lambda: worker.retire(runtime.settings.grace))
    try:
        await runtime.run()
    finally:
        logs.close(LAST_LINES)
    leave(0)


def _end_when_orphaned(parent: int, worker: Worker) -> None:
    """End a child that hangs so badly that it does not notice the death of its supervisor, before others start."""
    while os.getppid() == parent or not worker.lost:
        time.sleep(ORPHAN_CHECK)
    os._exit(1)


if __name__ == "__main__":
    main()
