"""Errors of drivers as the causes of ours: where ours says it all, the way through the driver is no news.

Of the system's some are none: a signal's handler may raise what looks like one.
"""

from typing import TypeVar

E = TypeVar("E", bound=BaseException)


def brief(error: E) -> E:
    """Return an error that a traceback tells in its own words alone: neither where it arose nor from what."""
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)


def refuse_foreign(error: OSError) -> None:
    """Raise an error that is not of the system: the TimeoutError of a signal's handler has no number."""
    if error.errno is None:
        raise error
