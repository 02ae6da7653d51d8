"""Open stores whose calls are written down."""

from typing import Any, NoReturn, TypeVar

from game.counted.bell import SilentBell
from game.counted.journal import Journal
from game.counted.kinds import KINDS
from standfast.errors import ConfigurationError
from standfast.stores.backend import AsyncJoined, Backend, Joined
from standfast.stores.verb import Verb

T = TypeVar("T")


class CountedBackend(Backend):
    """Another store. What runs in transactions of the caller's own is not seen from here, and not counted."""

    def __init__(self, inner: Backend, journal: Journal) -> None:
        super().__init__("a counted store")
        self.verbs, self.bell = inner.verbs, inner.bell
        self._inner = inner
        self._journal = journal

    def _open(self) -> Backend:
        return self._inner

    def run(self, verb: Verb[T]) -> T:
        """Run the verb and write it down."""
        with self._journal.noting(verb.name) as noted:
            answer = super().run(verb)
            noted.count(answer)
            return answer

    async def arun(self, verb: Verb[T]) -> T:
        """Run the verb and write it down."""
        with self._journal.noting(verb.name) as noted:
            answer = await super().arun(verb)
            noted.count(answer)
            return answer

    def join(self, connection: Any) -> Joined:
        """Return the transaction of the store inside."""
        return self._inner.join(connection)

    def ajoin(self, connection: Any) -> AsyncJoined:
        """Return the transaction of the store inside."""
        return self._inner.ajoin(connection)


class PassiveBackend(CountedBackend):
    """A store as passive as a plain table: no bell, no way around the journal, and no verb without a kind."""

    def __init__(self, inner: Backend, journal: Journal) -> None:
        super().__init__(inner, journal)
        self.bell = SilentBell()

    def run(self, verb: Verb[T]) -> T:
        """Run the verb, if the rules have it, and write it down."""
        _refuse_unlisted(verb)
        return super().run(verb)

    async def arun(self, verb: Verb[T]) -> T:
        """Run the verb, if the rules have it, and write it down."""
        _refuse_unlisted(verb)
        return await super().arun(verb)

    def join(self, connection: Any) -> NoReturn:  # noqa: ARG002 - the port's shape
        """Refuse: it would not be counted."""
        raise ConfigurationError("a passive store joins no transaction: leave tx= and ctx.transaction out")

    ajoin = join


def _refuse_unlisted(verb: Verb[Any]) -> None:
    if verb.name not in KINDS:
        verb.steps.close()
        raise ConfigurationError(
            f"a passive store has no {verb.name}: jobs are found by claim, and looked at one by one with get"
        )
