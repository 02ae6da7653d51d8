"""Where coroutines are: of one task, or of all that an event loop has, with the jobs they belong to."""

import asyncio
import traceback
from collections.abc import Iterable
from typing import Any

from standfast.worker.control import Control

MOST_TASKS = 500
"""Tasks that a picture shows; jobs come first."""


def picture(running: Iterable[Control]) -> str:
    """Return where all tasks of this event loop are, those that run jobs first."""
    jobs = {control.attempt: control for control in running if control.attempt is not None}
    others = [task for task in asyncio.all_tasks() if task not in jobs]
    shown = [_shown(task, f"job {control.claim.job_id} of {control.claim.task}") for task, control in jobs.items()]
    shown += [_shown(task, task.get_name()) for task in sorted(others, key=asyncio.Task.get_name)]
    left_out = len(shown) - MOST_TASKS
    return "\n".join(shown[:MOST_TASKS] + ([f"and {left_out} more"] if left_out > 0 else []))


def stack_of(task: asyncio.Task[Any] | None) -> str:
    """Return where a suspended coroutine is; a task's own `get_stack` tells its outermost frame only."""
    frames, coroutine = [], None if task is None else task.get_coro()
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        frames.append((frame, frame.f_lineno))
        coroutine = getattr(coroutine, "cr_await", None)
    return "".join(traceback.StackSummary.extract(frames).format())


def _shown(task: asyncio.Task[Any], who: str) -> str:
    name = getattr(task.get_coro(), "__qualname__", "")
    return f"{who} ({name}):\n{stack_of(task)}"
