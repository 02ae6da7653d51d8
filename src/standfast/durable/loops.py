"""In which item of which loop of `ctx.resume` a handler is: a wait there belongs to that item, in every run."""

from collections.abc import Iterator
from contextlib import contextmanager

from standfast.durable.progressing import Progressing


class Loops:
    """The loops that a handler is in, the outer ones first."""

    def __init__(self) -> None:
        self._open: dict[str, Progressing] = {}

    @property
    def place(self) -> str:
        """The item that is in hand in each loop, as later runs will find it; empty outside of loops."""
        return ",".join(f"{name}@{at.done}" for name, at in self._open.items())

    @contextmanager
    def inside(self, name: str, at: Progressing) -> Iterator[None]:
        """Be in a loop."""
        self._open[name] = at
        try:
            yield
        finally:
            del self._open[name]
