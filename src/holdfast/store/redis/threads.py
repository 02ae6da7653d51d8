"""Hands work to threads that end when the store is closed; most of it is to open a connection."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import TypeVar

from redis.exceptions import RedisError

from holdfast.store.redis.address import Place
from holdfast.store.redis.wire import Wire

T = TypeVar("T")

Opened = tuple[Wire, Place, int]
"""A connection, where it leads, and how often the server had been lost before."""


class ClosedError(RedisError):
    """The store was closed while somebody still used it."""


def submit(threads: Executor, work: Callable[[], T]) -> Future[T]:
    """Let one of the threads do it. Raises ClosedError where they have ended."""
    try:
        return threads.submit(work)
    except RuntimeError as error:
        if "shutdown" not in str(error):
            raise  # such as that the system has no thread left
        raise ClosedError(str(error)) from None


def hang_up(opening: Future[Opened]) -> None:
    """Close what was opened for somebody who has left."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result()[0].close()
