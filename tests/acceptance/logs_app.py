"""The app of the tests about logs: jobs that fail in crowds, and jobs that log."""

import logging
import os
import warnings
from pathlib import Path

from standfast import Context, Standfast

FOLDER = Path(__file__).resolve().parent
app = Standfast(f"sqlite:///{FOLDER}/jobs.db", lease=10, beat=0.25, grace=5, store_timeout=5)
log = logging.getLogger("shop.mail")

if "LOGS_APP_CONSOLE" in os.environ:
    logging.basicConfig(level=logging.INFO, format="MINE %(message)s")


@app.task(max_attempts=2, backoff=0)
async def refuse(number: int) -> None:
    """Fail, each time with another message."""
    raise ConnectionError(f"no answer to {number}")


@app.task
async def work(number: int) -> int:
    """Do nothing, well."""
    return number


@app.task
def speak(ctx: Context, words: str) -> None:
    """Say something in all the ways there are."""
    ctx.log.info("job says %s", words, extra={"order": 42})
    log.debug("debug says %s", words)
    log.info("app says\n%s", words)
    warnings.warn(f"warning says {words}", stacklevel=1)
    try:
        int(words)
    except ValueError:
        log.exception("it failed")
