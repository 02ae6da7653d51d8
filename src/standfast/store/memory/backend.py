"""An open memory store: one lock makes each verb atomic, whichever thread or event loop runs it."""

import threading
from typing import Any, NoReturn, TypeVar

from standfast.clock import Clock, SystemClock
from standfast.errors import ConfigurationError
from standfast.store.backend import NoTransactions
from standfast.store.memory.bell import MemoryBell
from standfast.store.memory.store import MemoryStore
from standfast.store.verb import Statement, Verb, follow

T = TypeVar("T")


class MemoryBackend(NoTransactions):
    """A store that lives and dies with this process."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._lock = threading.Lock()
        self.verbs = MemoryStore(clock or SystemClock())
        """The verbs of this store."""
        self.bell = MemoryBell()
        """The bell of this store."""

    def run(self, verb: Verb[T]) -> T:
        """Run the verb in one step and return its answer."""
        with self._lock:
            answer = follow(verb.steps, _refuse)
        for tone in verb.tones:
            self.bell.ring(tone)
        return answer

    async def arun(self, verb: Verb[T]) -> T:
        """Run the verb in one step, which takes no time worth leaving the event loop for."""
        return self.run(verb)

    def join(self, connection: Any) -> NoReturn:
        """Refuse: there are no transactions here."""
        raise ConfigurationError(
            f"the memory store has no transactions and cannot take part in one of your {type(connection).__name__}:"
            " use a sqlite:/// store on the file of that connection"
        )

    def close(self) -> None:
        """Let go of nothing: there are no connections and no threads."""


def _refuse(statement: Statement) -> NoReturn:
    raise TypeError(f"memory cannot run {statement!r}, of a verb of another store")
