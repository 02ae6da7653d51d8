"""Processes that are measured, and what they cost."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

TOLD = 2000
"""Characters shown of what a failed process said."""


def run_python(command: Sequence[str | Path], environment: Mapping[str, str], folder: Path) -> str:
    """Run a process to its end and return what it prints."""
    done = subprocess.run(command, cwd=folder, env=dict(environment), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"bench: {' '.join(map(str, command[2:]))} failed:\n{done.stderr[-TOLD:]}")
    return done.stdout


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process, its descendants and those it has buried have used. Linux only."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return own + sum(cpu_seconds(int(child)) for child in children)


def import_time(times: int) -> float:
    """Return milliseconds that the import of an app adds to the start of Python: the median of so many."""
    codes = ("pass", "from standfast import Standfast")
    bare, ours = (median(_run_time(code) for _ in range(times)) for code in codes)
    return (ours - bare) * 1000


def _run_time(code: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - began
