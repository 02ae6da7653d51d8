"""The jobs of hosts in tests. Each run notes what happens to it, under its idempotency key."""

import json
import os
import time

from host_notes import VARIABLE, note

from standfast import Context, Every, Standfast

app = Standfast()


@app.task(schedule=Every(1, anchored=True, overlap="allow", misfire="all"))
def tick(ctx: Context) -> None:
    """Run each second."""
    note("start", ctx)
    note("done", ctx, about=ctx.planned_at.isoformat())


@app.task(max_attempts=10, backoff=0.1)
def nap(ctx: Context, seconds: float) -> None:
    """Work for a while; who is asked to stop notes it, and finishes all the same."""
    note("start", ctx)
    ends_at, asked = time.monotonic() + seconds, False
    while time.monotonic() < ends_at:
        time.sleep(0.01)
        if ctx.cancelled and not asked:
            note("asked", ctx)
            asked = True
    note("done", ctx)


@app.task(max_attempts=10, backoff=0.1)
def hold(ctx: Context) -> None:
    """Work until asked to stop, and leave it to another run then, which is short."""
    note("start", ctx)
    while ctx.fence == 1 and not ctx.cancelled:
        time.sleep(0.01)
    if ctx.fence == 1:
        note("asked", ctx)
        ctx.raise_if_cancelled()
    note("done", ctx)


@app.task(max_attempts=10, backoff=0.1)
def walk(ctx: Context, steps: int, pause: float) -> None:
    """Do one step after the other, and go on where an earlier run was."""
    note("start", ctx)
    for step in ctx.resume(range(steps), every=1):
        time.sleep(pause)
        note("step", ctx, about=str(step))
    note("done", ctx)


def order(task: str, given: dict[str, str]) -> str:
    """Enqueue a job with arguments as a request has them; return its id."""
    return app.tasks[task].enqueue(**{name: json.loads(value) for name, value in given.items()}).id


assert VARIABLE in os.environ, "only tests import this"
