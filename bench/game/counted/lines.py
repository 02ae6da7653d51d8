"""Files of lines that many processes append to, each line with one write, and that outlive `kill -9`."""

import os
from pathlib import Path

_BEGIN = b'{"'
"""How each line begins, and what is nowhere else in it: each is one flat JSON object."""


def append_line(path: Path, line: bytes) -> None:
    """Append a line. The file is not kept open: whoever forks or closes meanwhile does no harm."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.write(file, line + b"\n")
    finally:
        os.close(file)


def read_lines(path: Path) -> list[bytes]:
    """Return the whole lines; none without a file.

    What a process had only begun to write when it was killed, or when we look, is left alone: it is the last line,
    or stands before the line of another.
    """
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return [line[line.rfind(_BEGIN) :] for line in lines]
