"""Where in the user's code a child hangs, from the stacks of all its threads. Pure."""

import re

from standfast.words import counted
from standfast.worker.places import users_line

_THREAD = re.compile(r"^(?=Thread 0x|Current thread 0x)", re.MULTILINE)
_CURRENT = "Current thread"


def where_it_hangs(stacks: str) -> str:
    """Return the innermost line of the user's code; nothing where none of it runs.

    The main thread, which takes the signal, is to blame if it is there: it turns the event loop. Else one of the
    others holds the interpreter, and where several are in the user's code nobody can tell which.
    """
    threads = sorted(_THREAD.split(stacks), key=lambda thread: not thread.startswith(_CURRENT))
    if threads[0].startswith(_CURRENT) and (where := users_line(threads[0])):
        return where
    first, *others = list(filter(None, map(users_line, threads))) or [""]
    return f"{first}, or in {counted(len(others), 'other thread')}" if others else first
