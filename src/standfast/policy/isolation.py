"""Where a handler runs: in its worker's process, or in one of its own, with a limit to its memory."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from standfast.policy.reading import is_int, is_word

LEAST_MEMORY = 32_000_000
"""Bytes below which a limit is a mistake in units: an interpreter with nothing but this package takes as much."""


class Isolation(StrEnum):
    """What a handler shares with others."""

    NONE = "none"
    """It runs in its worker's own process, as a coroutine or in a thread."""
    PROCESS = "process"
    """It runs in a process of its own, which can be ended without harm to anything else."""


def isolation_problems(isolation: Any, memory: Any) -> Iterator[str]:
    """Yield what is wrong with where a handler runs and how much memory it may take."""
    if not is_word(Isolation, isolation):
        yield f"isolation must be 'none' or 'process', not {isolation!r}"
    if memory is None:
        return
    if not is_int(memory) or memory < LEAST_MEMORY:
        yield f"memory must be a size such as '512MB' or '1GiB', or as many bytes, at least 32MB, not {memory!r}"
    if isolation == Isolation.NONE:
        yield "memory can be limited only in a process of its own; add isolation='process'"
