"""Errors of drivers as the causes of ours: where ours says it all, the traceback through the driver adds nothing.

Not every OSError is one of the system: a signal handler may raise a TimeoutError, for example.
"""

from typing import TypeVar

E = TypeVar("E", bound=BaseException)


def brief(error: E) -> E:
    """Return an error that a traceback tells in its own words alone: neither where it arose nor from what."""
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)


def refuse_foreign(error: OSError) -> None:
    """Raise an OSError that does not come from the system: one that a signal handler raised has no `errno`."""
    if error.errno is None:
        raise error
