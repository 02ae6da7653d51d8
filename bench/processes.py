"""Processes that are measured, and what they cost."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent

TOLD = 2000
"""Characters shown of what a failed process said."""


def run_quietly(command: list[str], environment: Mapping[str, str]) -> None:
    """Run a command to its end; what it says is shown only if it fails."""
    done = subprocess.run(command, cwd=HERE, env=dict(environment), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"bench: {command[-2:]} failed:\n{done.stderr[-TOLD:]}")


def run_python(code: str, environment: Mapping[str, str]) -> str:
    """Run Python code in a process of its own and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=HERE, env=dict(environment), capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"bench: a measured process failed:\n{done.stderr[-TOLD:]}")
    return done.stdout


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process and its descendants have used. Linux only."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return own + sum(cpu_seconds(int(child)) for child in children)


def import_time(times: int) -> float:
    """Return milliseconds that `import holdfast` adds to the start of Python: the median of so many."""
    bare, ours = (median(_run_time(code) for _ in range(times)) for code in ("pass", "import holdfast"))
    return (ours - bare) * 1000


def _run_time(code: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - began
