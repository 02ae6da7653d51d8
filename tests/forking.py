"""Scripts that fork: each is run in a process of its own, and fails where a child of it does."""

import subprocess
import sys
from pathlib import Path

FORK = """
import gc, os, signal

def fork(act):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            act()
        except BaseException as error:
            print(f"in the child: {error!r}", flush=True)
            os._exit(1)
        gc.collect()
        os._exit(0)
    return child

def well(child):
    return os.waitpid(child, 0)[1] == 0
"""


def run_forking(script: str, *arguments: str | Path) -> None:
    """Run a script that has `fork(act)` and `well(child)`; it may say nothing but what is wrong."""
    # Newer Pythons warn of any fork in a process with threads; here that is the point.
    command = [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", FORK + script, *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
