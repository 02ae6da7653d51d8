"""Hands work to threads that end when the store is closed."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import TypeVar

from redis.exceptions import RedisError

T = TypeVar("T")


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
