"""The machine that a game was played on, without its name."""

import os
import platform
import sqlite3
from pathlib import Path

import msgspec


class Machine(msgspec.Struct, frozen=True):
    """What a reader needs to compare figures."""

    processor: str
    cores: int
    memory_gb: float
    system: str
    python: str
    sqlite: str


def this_machine() -> Machine:
    """Return what this machine is."""
    return Machine(
        processor=_processor(),
        cores=os.cpu_count() or 1,
        memory_gb=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        sqlite=sqlite3.sqlite_version,
    )


def _processor() -> str:
    """Return the model, where the system tells it."""
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text().splitlines() if listed.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()
