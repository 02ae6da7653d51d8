"""A process that has a host and does as it is told, a word a line: `python host_script.py GRACE`."""

import json
import logging
import os
import sys
import threading

from host_jobs import app

from holdfast.host import Host

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")


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
            case ["exit"]:
                return


main()
