"""Ends a server whose tests are gone, however they ended: `python guard.py PID FOLDER`, run beside the server.

Its standard input is held open by the tests. When that ends, and nobody has ended the guard before, nobody is left
to stop the server.
"""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress


def main() -> None:
    """Wait for the end of the tests, then end the server and its children and remove its folder."""
    server, folder = int(sys.argv[1]), sys.argv[2]
    born = _birth(server)
    sys.stdin.buffer.read()
    if _birth(server) == born != "":  # the number may belong to somebody else by now
        for pid in (server, *_children(server)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)


def _birth(pid: int) -> str:
    return _ps("-o", "lstart=", "-p", str(pid)).strip()


def _children(pid: int) -> list[int]:
    pairs = [line.split() for line in _ps("-eo", "pid=,ppid=").splitlines()]
    return [int(child) for child, parent in pairs if int(parent) == pid]


def _ps(*words: str) -> str:
    return subprocess.run(["ps", *words], check=False, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
