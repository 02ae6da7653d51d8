"""No connection crosses a fork.

Two processes on one connection would read each other's answers, and a child that closed it, or merely forgot it,
would say goodbye to the server in its parent's name. So in a child every inherited connection is kept for ever, is
neither used nor closed, and its descriptor leads nowhere: the parent alone holds the line, and when it ends the
server notices. What runs in the parent meanwhile goes on undisturbed, so a fork waits for nobody.

A fork past Python's handlers leaves the descriptor open in the child; even so nothing is used, as each process has
an engine of its own (backend.py), nor closed: psycopg closes nothing that another process opened.
"""

import os
from contextlib import suppress
from typing import Protocol
from weakref import WeakSet


class Line(Protocol):
    """Something with a connection behind it."""

    def fileno(self) -> int:
        """Return the descriptor of the connection."""
        ...


OPEN = WeakSet[Line]()
"""Every open connection of this process. One that nobody has any more is not: libpq hung up."""

_inherited: list[Line] = []


def _after_in_child() -> None:
    crossed = list(OPEN)
    OPEN.clear()
    _inherited.extend(crossed)
    if not crossed:
        return
    nowhere = os.open(os.devnull, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
    try:
        for line in crossed:
            # Not closed: its number would go to another file, which libpq might take for its own.
            with suppress(OSError):
                os.dup2(nowhere, line.fileno(), inheritable=False)
    finally:
        os.close(nowhere)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_in_child)
