"""Open stores whose calls are written down."""

from typing import Any, NoReturn, TypeVar

from game.counted.bell import SilentBell
from game.counted.journal import Journal
from game.counted.kinds import KINDS
from standfast.errors import ConfigurationError
from standfast.stores.backend import Backend, BackendWrapper, Bell, NoTransactions
from standfast.stores.verb import Verb

T = TypeVar("T")


class CountedBackend(BackendWrapper):
    """Another store. What runs in transactions of the caller's own is not seen from here, and not counted."""

    def __init__(self, inner: Backend, journal: Journal) -> None:
        super().__init__(inner)
        self._journal = journal

    def run(self, verb: Verb[T]) -> T:
        """Run the verb and write it down."""
        with self._journal.noting(verb.name) as noted:
            answer = self._inner.run(verb)
            noted.count(answer)
            return answer

    async def arun(self, verb: Verb[T]) -> T:
        """Run the verb and write it down."""
        with self._journal.noting(verb.name) as noted:
            answer = await self._inner.arun(verb)
            noted.count(answer)
            return answer


class PassiveBackend(NoTransactions, CountedBackend):
    """A store as passive as a plain table: no bell, no way around the journal, and no verb without a kind."""

    def __init__(self, inner: Backend, journal: Journal) -> None:
        super().__init__(inner, journal)
        self._bell = SilentBell()

    @property
    def bell(self) -> Bell:
        """A bell that never rings."""
        return self._bell

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


def _refuse_unlisted(verb: Verb[Any]) -> None:
    if verb.name not in KINDS:
        verb.steps.close()
        raise ConfigurationError(
            f"a passive store has no {verb.name}: jobs are found by claim, and looked at one by one with get"
        )
