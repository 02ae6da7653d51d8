"""An app with as many tasks as it is told, for the tests of metrics: `Shop` copies it beside a database."""

import os
from pathlib import Path

from standfast import Standfast

FOLDER = Path(__file__).resolve().parent
app = Standfast(f"sqlite:///{FOLDER}/jobs.db")


async def do_nothing() -> None:
    """Do nothing."""


@app.task
def spread(first: int, last: int) -> None:
    """Enqueue one job of each of these tasks, with a tag of its own."""
    for number in range(first, last):
        tasks[number].options(tags=[f"tag-{number}"]).enqueue()


tasks = [
    app.task(do_nothing, name=f"task-{number}", queue=f"queue-{number % 1000}")
    for number in range(int(os.environ.get("TASKS", "0")))
]
