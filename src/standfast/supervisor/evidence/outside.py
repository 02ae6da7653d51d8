"""A living process, looked at from outside: what /proc tells of it and, where it is installed, py-spy."""

import asyncio
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from standfast.supervisor.evidence.gathering import gather

FACTS_WITHIN, PY_SPY_WITHIN = 0.5, 2.0
"""Seconds for each."""

MOST_THREADS = 64
MOST_CHARACTERS = 256 * 1024
"""How much of what py-spy says is kept."""

PY_SPY = "py-spy"

_OF_PROCESS = ("status", "stat", "wchan", "stack", "limits", "io")
_OF_THREAD = ("comm", "wchan")


async def seen_from_outside(pid: int) -> dict[str, str]:
    """Return what can be seen of a living process, within seconds: texts by name."""
    facts = await gather({"process": asyncio.to_thread(process_facts, pid)}, FACTS_WITHIN)
    return facts | await gather({"native_stacks": py_spy(pid)}, PY_SPY_WITHIN)  # last, as it holds the process up


def process_facts(pid: int, proc: Path = Path("/proc")) -> str:
    """Return what the kernel tells of a process and its threads, as far as we may read it."""
    own = proc / str(pid)
    parts = [f"{name}:\n{text}" for name in _OF_PROCESS if (text := _read(own / name))]
    threads = list(_threads(own / "task"))
    return "\n\n".join([*parts, *(["threads:\n" + "\n".join(threads)] if threads else [])])


def _threads(folder: Path) -> Iterator[str]:
    with suppress(OSError):
        for thread in sorted(folder.iterdir())[:MOST_THREADS]:
            words = [_read(thread / name) or "?" for name in _OF_THREAD]
            state = next((line for line in _read(thread / "status").splitlines() if line.startswith("State:")), "")
            yield f"{thread.name} {words[0]}: {state.removeprefix('State:').strip()}, waits in {words[1]}"


def find_py_spy() -> str | None:
    """Return where py-spy is: on PATH or beside this interpreter; None where it is not installed."""
    return shutil.which(PY_SPY) or shutil.which(PY_SPY, path=str(Path(sys.executable).parent))


async def py_spy(pid: int, command: str | None = None) -> str:
    """Return the stacks of a process with native frames; nothing where py-spy is not installed."""
    command = command or find_py_spy()
    if command is None:
        return ""
    process = await asyncio.create_subprocess_exec(
        command,
        *("dump", "--native", "--pid", str(pid)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return said.decode(errors="replace")[:MOST_CHARACTERS]


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""
