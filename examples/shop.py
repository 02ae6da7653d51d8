"""An example shop. `make run` shows it at work; by hand: `standfast up shop:app --app-dir examples`."""

import asyncio
import random
import time

from standfast import Context, Cron, Every, Standfast

app = Standfast("sqlite:///shop.db", keep_finished=3600)

DAYS = 30
CUSTOMERS = ("ada", "grace", "linus", "margaret", "dennis", "barbara")
THINGS = ("lamp", "chair", "teapot", "map", "clock")
CLUMSY = 0.15
MISTYPED = 0.05
PAGES = 120
dice = random.Random()  # noqa: S311 - pretended customers are no secret


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


@app.task(queue="orders", max_attempts=3)
async def pack_order(ctx: Context, number: int, thing: str, customer: str) -> str:
    """Pretend to pack an order; now and then the box is too small, and the next attempt takes another."""
    ctx.log.info("packing a %s for %s", thing, customer)
    await asyncio.sleep(dice.uniform(0.1, 0.8))
    if ctx.attempt == 1 and dice.random() < CLUMSY:
        raise ValueError(f"the {thing} of order {number} does not fit into the box")
    address = "fail" if dice.random() < MISTYPED else customer
    mail = send_mail.options(max_attempts=2, tags=["order"])
    await mail.aenqueue(f"{address}@example.com", subject=f"Order {number} is on its way")
    return f"a {thing} for {customer}"


@app.task(queue="reports")
def index_pages(ctx: Context) -> str:
    """Pretend to go through all pages of the shop, which takes its time."""
    for page in range(1, PAGES + 1):
        ctx.sleep(0.2)
        ctx.progress(page, PAGES, f"page {page}")
    return f"{PAGES} pages"


@app.task(schedule=Every(2))
async def serve_customers() -> int:
    """Pretend that customers come in and buy something; the shop lives by it."""
    orders = [
        {"number": dice.randrange(10_000, 99_999), "thing": dice.choice(THINGS), "customer": dice.choice(CUSTOMERS)}
        for _ in range(dice.randrange(1, 4))
    ]
    await pack_order.options(tags=["order"]).aenqueue_many(orders)
    return len(orders)


app.objective("mails-arrive", task="send_mail", target=0.95)
app.objective("orders-start", queue="orders", target=0.99, start_within=30)
app.schedule("month-end", monthly_report, Cron("0 6 1 * *", tz="Asia/Taipei"), "last month")
app.schedule("index", index_pages, Every(60))
