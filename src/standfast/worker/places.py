"""Where in the user's own code a thread is: neither in Python's library, nor in a package, nor in ours."""

import re
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from types import FrameType

_OURS = str(Path(__file__).resolve().parents[1]) + "/"
_LIBRARY = tuple({f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib")})
_PACKAGES = ("/site-packages/", "/dist-packages/")
_LINE = re.compile(r'^ *File "(.+)", line (\d+),? in (.+)$', re.MULTILINE)
_INNERMOST_FIRST = "most recent call first"


def users_frame(innermost: FrameType | None) -> FrameType | None:
    """Return the innermost frame of a stack that is the user's own; None where there is none.

    Where the user's app is an installed package itself, that is the outermost frame of any package.
    """
    frames: list[FrameType] = []
    while innermost is not None:
        frames.append(innermost)
        innermost = innermost.f_back
    index = _users(frame.f_code.co_filename for frame in frames)
    return None if index is None else frames[index]


def users_line(stack: str) -> str:
    """Return the same of one thread's stack as text: `jobs.py:12 in render`; nothing where there is none."""
    lines = _LINE.findall(stack) if _INNERMOST_FIRST in stack else _LINE.findall(stack)[::-1]
    index = _users(file for file, _, _ in lines)
    if index is None:
        return ""
    file, line, function = lines[index]
    return f"{_from_here(file)}:{line} in {function}"


def _users(files: Iterable[str]) -> int | None:
    """Return which of the files of a stack, the innermost first, is the user's own."""
    packaged = None
    for index, file in enumerate(files):
        if any(each in file for each in _PACKAGES):
            packaged = index if not file.startswith(_OURS) else packaged
        elif not file.startswith((_OURS, "<frozen ", *_LIBRARY)):
            return index
    return packaged


def place_of(frame: FrameType) -> str:
    """Return a file and line as people write it: from the working directory where it is below that."""
    return f"{_from_here(frame.f_code.co_filename)}:{frame.f_lineno}"


def _from_here(file: str) -> str:
    return file.removeprefix(f"{Path.cwd()}/")
