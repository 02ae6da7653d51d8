"""Loops over items that take a millisecond each, bare and resumed. Their store is named by STANDFAST_URL."""

import time
from collections.abc import Iterable

from standfast import Context, Standfast

ITEM = 0.001

app = Standfast()


@app.task
def bare(items: int) -> float:
    """Loop as Python does; return how many seconds it took."""
    return _timed(range(items))


@app.task
def resumed(items: int, ctx: Context) -> float:
    """Loop with a checkpoint every 100 items; return how many seconds it took."""
    return _timed(ctx.resume(range(items), every=100))


def _timed(items: Iterable[int]) -> float:
    began = time.perf_counter()
    for _ in items:
        time.sleep(ITEM)
    return time.perf_counter() - began
