"""Spans of time as people write them: 30s, 15m, 1h30m, 2d. Pure."""

import re
from datetime import timedelta

from standfast.policy import MAX_DELAY

_NUMBER = re.compile(r"\d+(\.\d+)?|\.\d+")
_PIECE = re.compile(rf"(?P<number>{_NUMBER.pattern}) ?(?P<unit>ms|s|min|m|h|d|w) ?")
_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}


def read_span(text: str) -> timedelta:
    """Return what a text means as a span. Raises ValueError that says how to write one."""
    written = text.strip()
    if _NUMBER.fullmatch(written):
        written += "s"
    seconds, position = 0.0, 0
    while (piece := _PIECE.match(written, position)) is not None:
        seconds += float(piece["number"]) * _SECONDS[piece["unit"]]
        position = piece.end()
    problem = None
    if not written or position < len(written):
        problem = "no span"
    elif seconds > MAX_DELAY.total_seconds():
        problem = "more than a hundred years"
    if problem is not None:
        raise ValueError(f"'{text}' is {problem}; write e.g. 30s, 15m, 1h30m or 2d")
    return timedelta(seconds=seconds)
