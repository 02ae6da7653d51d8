"""A process that has a host, and enqueues beside it as requests do: `python host_enqueues.py GRACE`."""

import json
import os
import sys

from host_jobs import app, whoami

from standfast.hosts.host import Host


def answer(**what: object) -> None:
    """Answer in one line."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def enqueued_by_a_fork() -> bool:
    """Enqueue in a forked process; tell whether it went well."""
    pid = os.fork()
    if pid == 0:
        whoami.enqueue()
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0


def main() -> None:
    """Do what is said."""
    host = Host(app, grace=float(sys.argv[1]), concurrency=4)
    for line in sys.stdin:
        match line.strip():
            case "start":
                host.start()
                answer(ready=host.ready(60), beater=host.beater_pid)
            case "stop":
                host.stop()
                answer(state=host.state)
            case "enqueue":
                answer(id=whoami.enqueue().id)
            case "forked":
                answer(well=enqueued_by_a_fork())


main()
