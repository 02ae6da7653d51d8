"""A process with two hosts that ends by itself; its handlers say whether both were told at the same time."""

import os
import sys
import threading
import time
from contextlib import suppress

from standfast import Context, Standfast
from standfast.hosts.host import Host

both = threading.Barrier(2)
begun = threading.Semaphore(0)


def begin(name: str) -> None:
    """Begin a host, and have it run a job until it stops."""
    app = Standfast(f"sqlite:///{os.environ['HOST_TEST_FOLDER']}/{name}.db", grace=5)

    @app.task
    def wait_for_the_other(ctx: Context) -> None:
        begun.release()
        while not ctx.cancelled:
            time.sleep(0.01)
        with suppress(threading.BrokenBarrierError):
            both.wait(4)
            sys.stdout.write("told together\n")

    Host(app).start()
    wait_for_the_other.enqueue()


begin("one")
begin("other")
begun.acquire()
begun.acquire()
