"""What steps and waits need of the attempt that they belong to, in whatever process it runs."""

from datetime import datetime
from random import Random
from typing import Any, Protocol

from standfast.codec import Scrub
from standfast.core.job import Claim
from standfast.core.memo import Memo
from standfast.durable.notebook import Notebook
from standfast.durable.ways import Either
from standfast.tracing.port import AttemptTrace


class Saving(Either, Protocol):
    """A transaction of the handler's own that writes a memo with its rows: the end of the block commits both."""

    memo: Memo
    """What to write; it is set in the block."""


class Port(Protocol):
    """The live side of an attempt. Every member may be used from any thread."""

    @property
    def claim(self) -> Claim:
        """The claim of the attempt."""
        ...

    @property
    def cancelled(self) -> bool:
        """True once the handler should end."""
        ...

    @property
    def notebook(self) -> Notebook:
        """The memos of the job."""
        ...

    @property
    def takes_pauses(self) -> bool:
        """Whether the waits between two tries of a step are kept; a test's clock stands still."""
        ...

    @property
    def random(self) -> Random:
        """The source of jitter."""
        ...

    @property
    def trace(self) -> AttemptTrace | None:
        """The span of the attempt, if it is traced."""
        ...

    @property
    def scrub(self) -> Scrub:
        """What keeps the secrets of the job out of texts."""
        ...

    def now(self) -> datetime:
        """Return the store's time."""
        ...

    def saving(self, connection: Any) -> Saving:
        """Return a transaction on a connection of the handler's own, not yet begun."""
        ...
