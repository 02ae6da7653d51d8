"""Tracebacks made short enough for a log: the frames nearest to the error, our own left out. Pure."""

import re
from itertools import takewhile

_FRAME = re.compile(r'^(?=  File ")', re.MULTILINE)
_OURS = re.compile(r'  File "[^"]*/standfast/(?:worker|child)/')

FRAMES = 3


def short_trace(trace: str) -> str:
    """Return the last frames of a traceback, without the errors themselves; "" where there are none."""
    _, *frames = _FRAME.split(trace)
    theirs = [_lines(frame) for frame in frames if not _OURS.match(frame)]
    return "\n".join(line for lines in theirs[-FRAMES:] for line in lines)


def short_trace_and_error(trace: str) -> str:
    """Return the last frames of a traceback, and the error that it ends with."""
    error = list(takewhile(lambda line: not line.startswith(" "), reversed(trace.splitlines())))
    return "\n".join([short_trace(trace), *reversed(error)]).lstrip("\n")


def _lines(frame: str) -> list[str]:
    """Return a frame without what follows it: an error begins at the margin."""
    return list(takewhile(lambda line: line.startswith(" "), frame.splitlines()))
