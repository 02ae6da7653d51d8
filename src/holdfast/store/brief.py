"""Errors of drivers as the causes of ours: where ours says it all, the way through the driver is no news."""

from typing import TypeVar

E = TypeVar("E", bound=BaseException)


def brief(error: E) -> E:
    """Return an error that a traceback tells in its own words alone: neither where it arose nor from what."""
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)
