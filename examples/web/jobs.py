"""The jobs of a small shop. The web apps beside this file run them in their own processes."""

import json
import time

from standfast import Context, Every, Job, Progress, Standfast

app = Standfast("sqlite:///web_shop.db")

DAYS = 30


@app.task(queue="reports")
def monthly_report(ctx: Context, month: str) -> str:
    """Pretend to add up a month. Stop the server half-way and start it again: it goes on with the next day."""
    for day in ctx.resume(range(1, DAYS + 1), every=1):
        time.sleep(0.1)
        ctx.progress(day, DAYS, note=f"day {day} of {DAYS}")
    return f"{DAYS * 42:,} orders in {month}"


@app.task(schedule=Every(3))
def count_stock(ctx: Context) -> str:
    """Pretend to count what is on the shelves. It is done once each time, however many servers there are."""
    return f"{int(ctx.planned_at.timestamp()) % 1000} things on the shelves"


def shown(job: Job) -> dict[str, object]:
    """Return what the page shows of a job."""
    progress = job.progress or Progress(0, DAYS)
    return {
        "id": job.id,
        "state": job.state,
        "done": progress.done,
        "total": progress.total,
        "note": progress.note,
        "result": json.loads(job.result or b"null"),
        "error": job.error,
    }
