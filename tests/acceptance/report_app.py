"""An app that promises something, fails in known ways, and mails a report to a file every second."""

import asyncio
from pathlib import Path

from standfast import CommandChannel, Context, Standfast
from standfast.admin.reports import schedule_report

FOLDER = Path(__file__).resolve().parent
WRITE = f"cat >> {FOLDER}/sent"

app = Standfast(f"sqlite:///{FOLDER}/jobs.db", name="shop", lease=10, beat=0.25, grace=5, store_timeout=5)
app.alerts(channels=[CommandChannel(name="ops", command=("/bin/sh", "-c", WRITE))])
app.objective("mail", target=0.9, task="send")
app.objective("in-time", target=0.99, queue="default", start_within=3600)


@app.task(name="send", max_attempts=2, backoff=0)
async def send(ctx: Context, number: int) -> None:
    """Fail each fifth for good, and each seventh once."""
    if number % 5 == 0:
        raise ConnectionRefusedError(f"mail{number}.example.com refused after {number} ms")
    if number % 7 == 0 and ctx.attempt == 1:
        raise TimeoutError("too slow")


@app.task(name="ponder")
async def ponder(seconds: float) -> None:
    """Take a while."""
    await asyncio.sleep(seconds)


schedule_report(app, "* * * * * *", channel="ops", tz="Asia/Taipei", queue="reports")
