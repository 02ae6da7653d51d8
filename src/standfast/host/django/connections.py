"""Django's database connections around jobs: looked after before and after each one, as around a request.

A connection that has broken, or is older than CONN_MAX_AGE, is closed, and the next query opens another. Django
keeps connections by thread, so this happens in the thread of the handler; async code has its connections in the
thread of `sync_to_async`.
"""

from collections.abc import AsyncGenerator, Callable
from functools import wraps
from typing import Any

from asgiref.sync import sync_to_async
from django.db import close_old_connections  # type: ignore[import-untyped]

from standfast.app import Standfast


async def with_connections(app: Standfast) -> AsyncGenerator[None, None]:
    """Look after the connections of every task of an app while a worker runs: a lifespan."""
    bare = {task: task.fn for task in app.tasks.values()}
    for task, fn in bare.items():
        task.fn = _awaited(fn) if task.is_async else _called(fn)
    yield
    for task, fn in bare.items():
        task.fn = fn


def _called(fn: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        close_old_connections()
        try:
            return fn(*args, **kwargs)
        finally:
            close_old_connections()

    return call


def _awaited(fn: Callable[..., Any]) -> Callable[..., Any]:
    close = sync_to_async(close_old_connections)

    @wraps(fn)
    async def call(*args: Any, **kwargs: Any) -> Any:
        await close()
        try:
            return await fn(*args, **kwargs)
        finally:
            await close()

    return call
