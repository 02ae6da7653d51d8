"""The colours of a log, and whether a stream is shown in any.

They are written by hand, because every child process tells its log, and to load rich takes a tenth of its start.
"""

import os
from typing import Final, TextIO

GREEN: Final = "32"
CYAN: Final = "36"
YELLOW: Final = "33"
BOLD_RED: Final = "1;31"
BOLD: Final = "1"
DIM: Final = "2"
PLAIN: Final = ""

_INSISTING = ("FORCE_COLOR", "TTY_COMPATIBLE")


def painted(text: str, colour: str) -> str:
    """Return a text in a colour."""
    return f"\x1b[{colour}m{text}\x1b[0m" if text and colour else text


def shows_colours(stream: TextIO) -> bool:
    """Tell whether a stream is shown in colours. Which terminals do so, rich knows; it is asked of no other."""
    if not stream.isatty() and not any(os.environ.get(name) for name in _INSISTING):
        return False
    from rich.console import Console  # noqa: PLC0415 - most processes have no terminal

    console = Console(file=stream)
    return not console.no_color and console.color_system is not None
