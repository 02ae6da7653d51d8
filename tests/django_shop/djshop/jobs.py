"""The app of the shop, and one whose jobs are elsewhere."""

import os

from asgiref.sync import sync_to_async
from django.db import connection

from standfast import Standfast

app = Standfast(os.environ["SHOP_URL"])
elsewhere = Standfast(os.environ["SHOP_ELSEWHERE"])


def _look():
    """Tell whether a connection was left open by the job before, and leave one open."""
    was_open = connection.connection is not None
    connection.ensure_connection()
    return was_open


@app.task
def finds_a_connection() -> bool:
    return _look()


@app.task
async def finds_a_connection_in_async_code() -> bool:
    return await sync_to_async(_look)()
