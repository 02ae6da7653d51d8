"""Where in the user's own code a thread is: neither in Python's library, nor in a package, nor in ours."""

import sysconfig
from pathlib import Path
from types import FrameType

_OURS = str(Path(__file__).resolve().parents[1]) + "/"
_LIBRARY = tuple({f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib")})
_PACKAGES = ("/site-packages/", "/dist-packages/")


def users_frame(innermost: FrameType | None) -> FrameType | None:
    """Return the innermost frame of a stack that is the user's own; None where there is none.

    Where the user's app is an installed package itself, that is the outermost frame of any package.
    """
    packaged, frame = None, innermost
    while frame is not None:
        file = frame.f_code.co_filename
        if any(each in file for each in _PACKAGES):
            packaged = frame if not file.startswith(_OURS) else packaged
        elif not file.startswith((_OURS, "<frozen ", *_LIBRARY)):
            return frame
        frame = frame.f_back
    return packaged


def place_of(frame: FrameType) -> str:
    """Return a file and line as people write it: from the working directory where it is below that."""
    file, here = frame.f_code.co_filename, f"{Path.cwd()}/"
    return f"{file.removeprefix(here)}:{frame.f_lineno}"
