"""What signals may be named."""

from collections.abc import Iterator
from typing import Any

from standfast.core.memo import SLEEPING

_LONGEST = 100


def signal_problems(name: Any) -> Iterator[str]:
    """Yield what is wrong with the name of a signal."""
    if not (isinstance(name, str) and 1 <= len(name) <= _LONGEST and name.isprintable() and ":" not in name):
        yield f"a signal's name must be 1 to {_LONGEST} printable characters without ':', not {name!r:.80}"
    elif name == SLEEPING:
        yield f"{SLEEPING!r} is what ctx.sleep_until waits for, and cannot be a signal's name: choose another"
