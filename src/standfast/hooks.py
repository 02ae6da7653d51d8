"""What an app may put around its jobs and its workers: middleware and lifespans."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from standfast.context import Context
from standfast.errors import ConfigurationError

CallNext = Callable[[], Awaitable[Any]]
"""Runs the next middleware, or the handler, and returns what it returned."""

Middleware = Callable[[Context, CallNext], Awaitable[Any]]
"""Runs around each attempt: `async def around(ctx, call_next)`."""

Lifespan = Callable[[Any], AsyncIterator[None]]
"""Sets up before a worker's first job, yields once, and tears down after its last: `async def lifespan(app)`."""


def check_middleware(around: Any) -> None:
    """Raise ConfigurationError unless this can be middleware."""
    if not inspect.iscoroutinefunction(around) or not _takes(around, 2):
        name = name_of(around)
        raise ConfigurationError(f"{name} cannot be middleware: write it as `async def {name}(ctx, call_next)`")


def check_lifespan(lifespan: Any) -> None:
    """Raise ConfigurationError unless this can be a lifespan."""
    if not inspect.isasyncgenfunction(lifespan) or not _takes(lifespan, 1):
        name = name_of(lifespan)
        raise ConfigurationError(f"{name} cannot be a lifespan: write it as `async def {name}(app)` with a `yield`")


def name_of(hook: Any) -> str:
    """Return the name that its author gave it."""
    return getattr(hook, "__qualname__", None) or repr(hook)


def _takes(function: Callable[..., Any], count: int) -> bool:
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    return True
