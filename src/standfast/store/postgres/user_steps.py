"""Runs one verb on a connection of the user's own, inside a savepoint.

    Last, alone        SAVEPOINT, the statement, NOTIFY and RELEASE in one message, where the driver can
    …, …, Last         SAVEPOINT has a message of its own; NOTIFY and RELEASE go with the last
    async              RELEASE has a message of its own: until it is sent, a cancelled call is undone

A cancellation may come at any time. It interrupts single statements, because they may have to wait for others. It
does not interrupt the messages that make or end the savepoint, so there is always one to go back to, or nothing to
undo. In sync code a signal handler may raise at any time too. A call that raises after its RELEASE is in the
transaction and cannot be undone. Then the commit is made to fail, by a cursor whose rows it has to fetch.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol

from standfast.store.postgres.foreign import Hand, Standing
from standfast.store.postgres.user_errors import code_of
from standfast.store.verb import Bulk, Command, Last, Query, Statement, Together, Tone, Try, Verb, afollow


class Guard(Protocol):
    """Awaits something that no cancellation may leave half done."""

    def __call__(self, coroutine: Coroutine[Any, Any, Any], within: float = ..., /) -> Awaitable[Any]:
        """Let a cancellation interrupt it only after so many seconds, and once."""
        ...


_SAVE = Command("SAVEPOINT standfast_verb")
_KEEP = Command("RELEASE SAVEPOINT standfast_verb")
_UNDO = Command("ROLLBACK TO SAVEPOINT standfast_verb")
_REFUSE = Command(
    "DECLARE standfast_interrupted CURSOR WITH HOLD FOR SELECT min(why)::int"
    " FROM (VALUES ('roll back: a call of Standfast in this transaction was interrupted')) AS told (why)"
)
"""Makes the commit fail with an error that says why. A rollback, also to an older savepoint, removes it."""


class SavedSteps:
    """The statements of one verb, and the notices of its tones; what fails before its end can be undone."""

    def __init__(
        self,
        hand: Hand,
        guard: Guard,
        verb: Verb[Any],
        channels: Mapping[Tone, str],
        ask_apart: Callable[[Try], Awaitable[Any]],
        *,
        release_apart: bool,
    ) -> None:
        self._hand = hand
        self._guard = guard
        self._verb = verb
        self._channels = channels
        self._ask_apart = ask_apart
        self._release_apart = release_apart
        self._told: set[Tone] = set()
        self._begun = False
        self._releasing = False

    async def run(self) -> Any:
        """Feed the verb the answers to its statements until it returns."""
        answer = await afollow(self._verb.steps, self.ask)
        await self._guard(self._end())
        return answer

    async def ask(self, statement: Statement) -> Any:
        """Run a statement and return its answer."""
        if isinstance(statement, Last):
            answers = await self._guard(self._ask_last(_listed(statement.statement)))
            return answers if isinstance(statement.statement, Together) else answers[0]
        if isinstance(statement, Try) and statement.apart:
            return await self._ask_apart(statement)
        if not self._begun:
            await self._guard(self._save())
        if isinstance(statement, Bulk):
            return await self._guard(self._hand.ask_bulk(statement))
        if isinstance(statement, Together):
            return await self._guard(self._hand.ask(statement.statements))
        single = _listed(statement.statement if isinstance(statement, Try) else statement)
        return (await self._guard(self._hand.ask(single), 0))[0]

    async def undo(self) -> bool:
        """Leave the transaction as before the verb. If it is too late, make COMMIT fail, and return False."""
        if not self._begun:
            return True
        if self._releasing and self._hand.standing is not Standing.FAILED:
            await self._hand.ask([_REFUSE])
            return False
        await self._hand.ask([_UNDO, _KEEP])
        return True

    async def _save(self) -> None:
        await self._hand.ask([_SAVE])
        self._begun = True

    async def _ask_last(self, statements: Sequence[Query | Command]) -> list[Any]:
        before = [] if self._begun else [_SAVE]
        sent = [*before, *statements, *self._notices()]
        if self._release_apart:
            self._begun = True
            answers = await self._hand.ask(sent)
        else:
            answers = await self._release(sent)
        return answers[len(before) : len(before) + len(statements)]

    async def _end(self) -> None:
        """Send what did not go with the last statement: there may have been none, or its answer told of a tone."""
        if not self._begun:
            return
        notices = self._notices()
        if not self._releasing:
            await self._release(notices)
        elif notices:
            await self._hand.ask(notices)

    async def _release(self, before: Sequence[Query | Command]) -> list[Any]:
        """Send the last statements, and RELEASE after them. If the server refuses one, nothing is released."""
        self._begun = self._releasing = True
        try:
            return await self._hand.ask([*before, _KEEP])
        except Exception as error:
            self._releasing = code_of(error) is None
            raise

    def _notices(self) -> list[Command]:
        """Return what rings the bell for the tones of the verb, each once."""
        tones = [tone for tone in self._verb.tones if tone not in self._told]
        self._told.update(tones)
        return [Command(f'NOTIFY "{self._channels[tone]}"') for tone in tones]


def _listed(statement: Statement) -> Sequence[Query | Command]:
    if isinstance(statement, Together):
        return statement.statements
    if isinstance(statement, Query | Command):
        return [statement]
    raise TypeError(f"PostgreSQL cannot run {statement!r}: it is of another store")
