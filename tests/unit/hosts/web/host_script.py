"""A process that has a host and does as it is told, a word a line: `python host_script.py GRACE`."""

import _thread
import json
import logging
import os
import sys
import threading
import time

from host_jobs import app

from standfast import Life
from standfast.hosts import exit_threads
from standfast.hosts.host import Host

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")


begun = threading.Event()


def answer(**what: object) -> None:
    """Answer in one line."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def forked_state(host: Host) -> str:
    """Return what a forked process makes of the host, which it must not touch."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        host.stop()
        os.write(theirs, str(host.state).encode())
        os._exit(0)
    os.close(theirs)
    os.waitpid(pid, 0)
    return os.read(ours, 100).decode()


def fail_when_told(life: Life) -> None:
    """Work in the background that fails when it is told to end, and has used the store then."""
    begun.set()
    while not life.cancelled:
        time.sleep(0.01)
    with app.lock("last"):
        raise LookupError("told")


def refuse_threads_at_the_end() -> None:
    """Let no thread begin once the main thread has ended, as Python 3.12.0 and 3.12.1 do."""

    def refuse(*_: object) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    def end() -> None:
        _thread.start_new_thread = threading._start_new_thread = refuse

    threading._register_atexit(end)


def main() -> None:
    """Do what is said."""
    host = Host(app, grace=float(sys.argv[1]), concurrency=4)
    for line in sys.stdin:
        match line.split():
            case ["start"]:
                host.start()
                answer(ready=host.ready(60), beater=host.beater_pid, state=host.state)
            case ["stop"]:
                host.stop()
                answer(state=host.state)
            case ["state"]:
                answer(state=host.state, beater=host.beater_pid, threads=[t.name for t in threading.enumerate()])
            case ["fork"]:
                answer(state=forked_state(host))
            case ["exec"]:
                os.execv(sys.executable, [sys.executable, "-c", "input()"])
            case ["spare"]:
                exit_threads.REFUSED = sys.version_info < (3, 13)  # later ones start threads in another way
            case ["end", "without", "threads"]:
                app.background(fail_when_told)
                begun.wait()
                refuse_threads_at_the_end()  # what is registered last is called first
                return
            case ["exit"]:
                return


main()
