"""The memory store: its verbs in one class, the open store, and a bell for any thread and event loop."""

import asyncio
import threading
from contextlib import suppress
from typing import Any, NoReturn, TypeVar

from standfast.errors import ConfigurationError
from standfast.model.clock import Clock, SystemClock
from standfast.model.concurrency import Wakeup
from standfast.stores.backend import Backend
from standfast.stores.memory.claim import ClaimVerbs
from standfast.stores.memory.records import RecordVerbs
from standfast.stores.memory.supervise import SupervisionVerbs
from standfast.stores.values import LeaseClock
from standfast.stores.verb import Tone, Verb


class MemoryListener:
    """One ear. A ring between two waits is not lost."""

    def __init__(self, bell: "MemoryBell", tone: Tone) -> None:
        self.tone = tone
        self._bell = bell
        self._loop = asyncio.get_running_loop()
        self._wakeup = Wakeup()

    async def wait(self, timeout: float) -> bool:
        """Return True as soon as the bell rings, False after `timeout` seconds."""
        return await self._wakeup.rest(timeout)

    def close(self) -> None:
        """Stop listening."""
        self._bell.forget(self)

    def hear(self) -> None:
        """End the wait, or the next one, from any thread; a loop that is closed has nobody left to wake."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._wakeup.call)


class MemoryBell:
    """Wakes listeners of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: set[MemoryListener] = set()

    def ring(self, tone: Tone = Tone.WORK) -> None:
        """Wake every listener for this tone. Never raises."""
        with self._lock:
            listeners = [listener for listener in self._listeners if listener.tone is tone]
        for listener in listeners:
            listener.hear()

    def listen(self, tone: Tone = Tone.WORK) -> MemoryListener:
        """Start listening for this tone alone, inside a running event loop."""
        listener = MemoryListener(self, tone)
        with self._lock:
            self._listeners.add(listener)
        return listener

    def forget(self, listener: MemoryListener) -> None:
        """Ring for this listener no more."""
        with self._lock:
            self._listeners.discard(listener)


class MemoryStore(RecordVerbs, ClaimVerbs, SupervisionVerbs):
    """The reference model of `Store`: a verb is one Python step over dicts, and so atomic under one lock."""

    lease_clock = LeaseClock.BOOT


T = TypeVar("T")


class MemoryEngine:
    """One lock makes each verb atomic, whichever thread or event loop runs it."""

    def __init__(self, bell: MemoryBell) -> None:
        self._lock = threading.Lock()
        self._bell = bell

    def run(self, verb: Verb[T]) -> T:
        """Run the verb in one step and return its answer."""
        with self._lock:
            try:
                statement = next(verb.steps)
            except StopIteration as stop:
                answer: T = stop.value
            else:
                verb.steps.close()
                raise TypeError(f"memory cannot run {statement!r}, of a verb of another store")
        for tone in verb.tones:
            self._bell.ring(tone)
        return answer

    async def arun(self, verb: Verb[T]) -> T:
        """Run the verb in one step, which takes no time worth leaving the event loop for."""
        return self.run(verb)

    def close(self) -> None:
        """Do nothing: there are no connections and no threads."""


class MemoryBackend(Backend):
    """A store that lives and dies with this process."""

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__("memory")
        self.verbs = MemoryStore(clock or SystemClock())
        self.bell: MemoryBell = MemoryBell()

    def _open(self) -> MemoryEngine:
        return MemoryEngine(self.bell)

    def join(self, connection: Any) -> NoReturn:
        """Refuse: there are no transactions here."""
        raise ConfigurationError(
            f"the memory store has no transactions and cannot take part in one of your {type(connection).__name__}:"
            " use a sqlite:/// store on the file of that connection"
        )

    ajoin = join

    def close(self) -> None:
        """Keep everything: there are no connections and no threads to let go of."""
