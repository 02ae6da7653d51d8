"""What is quick to know of the death of a child: how it ended, of what, and what it left behind."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from standfast.core.crash import Death
from standfast.core.incident import Trouble
from standfast.core.job import ClaimRef
from standfast.supervisor.child import Child, Exit, Phase
from standfast.supervisor.evidence.memory import Certainty, Verdict, judge, lines_about, megabytes
from standfast.supervisor.evidence.memorywatch import MemoryWatch

T = TypeVar("T")

_OF_MEMORY = {Certainty.CERTAIN: "ran out of memory", Certainty.LIKELY: "most likely ran out of memory"}


@dataclass(frozen=True, slots=True)
class Finding:
    """What a child died of, in words that follow its name, with what was found and what it ran.

    `cause` is the same for the same cause of death, whatever else differs.
    """

    trouble: Trouble
    how: str
    cause: str
    parts: Mapping[str, str]
    claims: frozenset[ClaimRef]


def examine(child: Child, death: Death, end: Exit, memory: MemoryWatch) -> Finding:
    """Look at a dead child, before anything of it is cleared away."""
    parts: dict[str, str] = {"exit": _exit(death, end)}
    verdict = None
    if not child.verdict:  # else it was ended by us
        verdict = _tried(parts, "memory", lambda: _judged(child, end, memory, parts))
    _tried(parts, "remains", lambda: parts.update(child.process.remains()))
    parts |= child.portrait or {}
    if child.portrait is not None:
        fate = "is beaten for no longer" if child.dropped else "was ended"
        trouble, how, cause = Trouble.HANG, f"hung ({child.verdict}) and {fate}", f"hung {child.where}"
    elif verdict is not None and verdict.holds:
        trouble = Trouble.OUT_OF_MEMORY
        how = cause = _OF_MEMORY[verdict.certainty]
    elif child.phase is Phase.STARTING and child.verdict:
        trouble = Trouble.CRASH
        how = cause = f"failed ({child.verdict.partition(chr(10))[0]})"
    else:
        trouble = Trouble.CRASH
        how = cause = _died(end)
    return Finding(trouble, how, cause, parts, death.started)


def _died(end: Exit) -> str:
    if end.unseen:
        return "is gone with its process"
    return f"exited with status {end.code}" if end.signal_name is None else f"died of {end.signal_name}"


def _exit(death: Death, end: Exit) -> str:
    lines = [death.evidence.partition("\n")[0] or str(end)]
    if end.peak_rss is not None:
        lines.append(f"peak memory: {megabytes(end.peak_rss)}")
    if end.cpu is not None:
        lines.append(f"processor time: {end.cpu:.2f} s")
    return "\n".join(lines)


def _judged(child: Child, end: Exit, memory: MemoryWatch, parts: dict[str, str]) -> Verdict:
    seen = memory.seen(child.process.remains().get("cgroup", ""))
    memory.look()  # the next death is judged by what comes from here on
    verdict = judge(child.process.pid, end, seen)
    parts["memory"] = f"out of memory: {verdict}"
    if about := lines_about(child.process.pid, seen.kernel or ()):
        parts["kernel log"] = "\n".join(about)
    return verdict


def _tried(parts: dict[str, str], name: str, collect: Callable[[], T]) -> T | None:
    """Return what was collected; what goes wrong stands in the evidence."""
    try:
        return collect()
    except Exception as error:  # noqa: BLE001 - evidence is never worth another failure
        parts[name] = f"(not known: {type(error).__name__}: {error})"
        return None
