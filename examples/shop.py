"""An example shop. `make run` shows it at work; by hand: `holdfast worker shop:app --app-dir examples`."""

import asyncio
import time

from holdfast import Context, Cron, Every, Holdfast

app = Holdfast("sqlite:///shop.db")

DAYS = 30


@app.task(queue="mail")
async def send_mail(to: str, subject: str) -> str:
    """Pretend to send a mail; one address always fails."""
    await asyncio.sleep(0.3)
    if to == "fail@example.com":
        raise ConnectionError(f"the mail server refuses {to}")
    return f"sent {subject!r} to {to}"


@app.task(queue="reports", timeout=60)
def monthly_report(ctx: Context, month: str) -> str:
    """Pretend to add up a month, and say how far it is."""
    for day in range(1, DAYS + 1):
        ctx.raise_if_cancelled()
        time.sleep(0.07)
        if day % 6 == 0:
            ctx.progress(day, DAYS)
    return f"{month}: {DAYS * 42} orders"


@app.task(schedule=Every(3))
def count_stock(ctx: Context) -> str:
    """Pretend to count what is on the shelves, every three seconds."""
    return f"counted for {ctx.planned_at:%H:%M:%S}"


app.schedule("month-end", monthly_report, Cron("0 6 1 * *", tz="Asia/Taipei"), "last month")
