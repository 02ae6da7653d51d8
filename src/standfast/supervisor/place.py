"""A place of a supervisor. It is kept filled: if the child in it ends, another is started.

kept ─► drained: whoever is in it ends what it runs ─► empty
  ▲                           │                          │
  └───────────────────────────┴── a reload, a recycle ◄──┘
"""

import asyncio


class Place:
    """Where a supervisor has one child, or for a moment two, of which one relieves the other."""

    def __init__(self) -> None:
        self.kept = asyncio.Event()
        """Set while a child is to be here."""
        self.kept.set()
        self.told_empty = False
        """Whether it was said that nobody is here any more."""

    @property
    def drained(self) -> bool:
        """Whether nobody is to be here any more."""
        return not self.kept.is_set()
