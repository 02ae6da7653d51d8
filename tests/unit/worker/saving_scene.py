"""A worker on a memory store that may be away for saves, and what was asked of it."""

from collections.abc import Mapping
from typing import Any

from stage import Stage

from standfast.errors import StoreUnavailableError, ValueNotStoredError
from standfast.model.memos import Save
from standfast.stores.memory.store import MemoryBackend, MemoryStore
from standfast.stores.verb import Verb


class Noting(MemoryStore):
    """Notes which saves are asked for."""

    saves: list[list[Save]]

    def save(self, worker: str, saves: Any) -> Verb[Any]:
        self.saves.append(list(saves))
        return super().save(worker, saves)


class Unreliable(MemoryBackend):
    """A store that may be away for saves, lose an answer, or refuse a value."""

    def __init__(self, clock: Any) -> None:
        super().__init__(clock)
        self.verbs = Noting(clock)
        self.verbs.saves = []
        self.calls: list[str] = []
        self.away = False
        self.away_for = 0
        self.lose_answers = 0
        self.refused = b""

    async def arun(self, verb: Verb[Any]) -> Any:
        self.calls.append(verb.name)
        if verb.name != "save":
            return await super().arun(verb)
        if self.away or self.away_for:
            self.away_for = max(0, self.away_for - 1)
            raise StoreUnavailableError("away")
        if self.refused and any(memo.body == self.refused for save in self.verbs.saves[-1] for memo in save.memos):
            raise ValueNotStoredError("it cannot be kept")
        answer = await super().arun(verb)
        if self.lose_answers:
            self.lose_answers -= 1
            raise StoreUnavailableError("committed, but the answer is lost")
        return answer


class Scene(Stage):
    kind = Unreliable
    backend: Unreliable

    @property
    def saves(self) -> list[list[Save]]:
        return self.backend.verbs.saves

    def memos(self, handle: Any) -> Mapping[str, bytes]:
        return {m.name: m.body for m in self.backend.run(self.backend.verbs.memos(handle.id))}

    @property
    def way(self) -> list[str]:
        """The calls that matter, in their order."""
        return [name for name in self.backend.calls if name in {"save", "finish", "memos"}]
