"""The app whose dashboard the browser tests look at: mail that fails, work that takes as long as a test likes."""

import asyncio
from pathlib import Path
from typing import Annotated

from standfast import Context, Cron, Every, Secret, Standfast

FOLDER = Path(__file__).resolve().parent
app = Standfast(f"sqlite:///{FOLDER}/jobs.db", beat=0.25, safety_poll=0.25)
app.alerts(enabled=False)
app.objective("mails", task="send_mail", target=0.99)


@app.task(queue="mail", max_attempts=1)
async def send_mail(ctx: Context, to: str, password: Annotated[str, Secret] = "") -> str:
    """Send a mail to whoever has an address; some wait for the post office, and some do not."""
    ctx.log.info("looking for %s", to)
    if "@" not in to:
        raise ValueError(f"{to!r} is no address")
    while to.startswith("patient@") and (FOLDER / "closed").exists():  # noqa: ASYNC110 - others remove it
        await asyncio.sleep(0.05)
    if to.startswith("hasty@") and (FOLDER / "closed").exists():
        raise ConnectionError("the post office is closed")
    return f"sent to {to}, with {len(password)} letters of password"


@app.task(queue="reports")
async def read_book(ctx: Context, book: str, pages: int) -> int:
    """Read, and wait after each page until a file of its name is there."""
    for page in range(1, pages + 1):
        ctx.progress(page, pages, f"page {page}")
        while not (FOLDER / f"{book}-{page}").exists():  # noqa: ASYNC110 - it is made by another process
            await asyncio.sleep(0.05)
    return pages


@app.task(queue="reports")
async def guard_stock() -> None:
    """Hold a lock for as long as the tests last."""
    async with app.lock("stock"):
        await asyncio.sleep(3600)


@app.task(queue="chores")
async def tidy() -> str:
    """Do little."""
    return "tidy"


app.schedule("nightly", tidy, Cron("0 2 * * *", tz="Asia/Taipei"))
app.schedule("hourly", send_mail, Every(3600), "ada@example.com")
