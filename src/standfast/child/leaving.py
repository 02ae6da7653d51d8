"""How the processes that run handlers end: always by `os._exit`, so that no thread can keep them."""

import asyncio
import contextlib
import os
import sys
import traceback
from collections.abc import Coroutine
from typing import Any, NoReturn


def live(life: Coroutine[Any, Any, None]) -> NoReturn:
    """Run the process; what it did not expect is said here, because leaving says nothing."""
    try:
        asyncio.run(life)
    except BaseException:  # noqa: BLE001 - whatever it is, the process is over
        traceback.print_exc()
    leave(1)


def leave(code: int) -> NoReturn:
    """End at once: no thread, and nothing that waits for one, may keep a process whose claims wait for release."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
