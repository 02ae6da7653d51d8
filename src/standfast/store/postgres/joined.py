"""Takes part in a transaction of the user's own: our statements on their connection, their commit or rollback.

Each verb has a savepoint, so that one that fails leaves the transaction usable, with nothing of ours in it. What
rings the bell is part of the transaction too: the server passes it on after the commit, and drops it otherwise.

    run:     SAVEPOINT ─► [look around] ─► the verb ─► NOTIFY ─► RELEASE
    begin:   [BEGIN] ─► SAVEPOINT ─► [look around]
    commit:  RELEASE, which fails if the user ended the transaction in between ─► COMMIT

Around is looked once on each connection: whether it leads to the database that the jobs are in.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager, suppress
from typing import Any, TypeVar

from standfast.awaiting import run_at_once, to_its_end
from standfast.errors import ConfigurationError, StoreError
from standfast.store.foreign import not_awaited, to_be_awaited
from standfast.store.postgres.foreign import Foreign, Hand, Standing, foreign
from standfast.store.postgres.home import Home, Place
from standfast.store.postgres.user_errors import CLOSED, FAILED, NO_TRANSACTION, code_of, translated
from standfast.store.postgres.user_steps import SavedSteps
from standfast.store.verb import Access, Command, Query, Steps, Try, Verb

T = TypeVar("T")

Undo = Callable[[], Coroutine[Any, Any, Any]]
"""Undoes what a call has done. It returns False if that was too late, and has then made every commit fail."""

_PATIENCE = 5.0
"""Seconds that a cancelled call waits for the answer that is under way, and again for the answer to its undoing."""

_SAVE = Command("SAVEPOINT standfast_whole")
_KEEP = Command("RELEASE SAVEPOINT standfast_whole")
_UNDO = Command("ROLLBACK TO SAVEPOINT standfast_whole")

_REFUSALS = {Standing.ABSENT: NO_TRANSACTION, Standing.FAILED: FAILED, Standing.CLOSED: CLOSED}
_NOTHING_TO_UNDO = {"25P01", "25P02"}
"""States that say: no transaction was open, or it had failed before."""
_ENDED = {"25P01", "3B001"}
"""States that say: the savepoint is gone, with the transaction that it was in."""
_ENDED_INSIDE = (
    "the transaction was committed or rolled back inside its block: leave its end to the block, and raise an"
    " exception to roll back"
)


class AsyncJoined:
    """One connection of the user's own, and the transaction on it."""

    def __init__(self, connection: Foreign, home: Home) -> None:
        self._foreign = connection
        self._home = home
        self._whole = False

    async def run(self, verb: Verb[T]) -> T:
        """Run a verb in the transaction that is open, or in one that the user's commit or rollback ends."""
        with self._translated():
            await self._prepare()
            hand = await self._to_its_end(self._foreign.enter())
            await self._check(hand)
        begins, apart = hand.standing is Standing.IDLE, self._foreign.is_async
        steps = SavedSteps(hand, self._to_its_end, verb, self._home.channels, self._ask_apart, release_apart=apart)
        try:
            await self._look_around(hand, steps.ask)
            answer: T = await steps.run()
            return answer  # noqa: TRY300 - at once: what raised behind this block would not be undone
        except BaseException as error:
            await self._undo(error, hand, hand.rollback if begins else steps.undo)
            with self._translated():
                raise

    async def begin(self) -> None:
        """Begin a transaction that `commit` or `rollback` ends; one that is open already is taken over."""
        with self._translated():
            await self._prepare()
        hand, saved = None, False
        try:
            hand = await self._foreign.begin()
            await self._check(hand)
            await hand.ask([_SAVE])
            saved = True
            await self._look_around(hand, lambda query: _first(hand, query))
            self._whole = True
        except BaseException as error:
            if self._foreign.has_begun:
                await self._undo(error, hand, self._foreign.rollback)
            elif hand is not None and saved:
                await self._undo(error, hand, lambda: hand.ask([_UNDO, _KEEP]))
            with self._translated():
                raise

    async def commit(self) -> None:
        """Commit what began with `begin`. If that fails, whatever the reason, the caller has to roll back."""
        with self._translated():
            hand = await self._foreign.enter()
            try:
                await hand.ask([_KEEP])
            except Exception as error:
                if code_of(error) in _ENDED:
                    raise StoreError(_ENDED_INSIDE) from error
                raise
            await self._foreign.commit()

    async def rollback(self) -> None:
        """Undo everything since `begin`, and what was open before it."""
        with self._translated():
            await self._foreign.rollback()

    def _translated(self) -> AbstractContextManager[None]:
        return translated(self._home.address, is_async=self._foreign.is_async)

    async def _prepare(self) -> None:
        """Make the tables ready on a connection of our own."""
        if not self._home.is_prepared():
            await self._aside(self._home.prepare)

    async def _check(self, hand: Hand) -> None:
        """Refuse what cannot be written to, as far as the driver knows."""
        standing = hand.standing
        if standing is Standing.ABSENT and self._whole:
            raise StoreError(_ENDED_INSIDE)
        if standing is Standing.CLOSED:
            await self._foreign.note_loss()
        if standing in _REFUSALS:
            raise ConfigurationError(_REFUSALS[standing])

    async def _look_around(self, hand: Hand, ask: Callable[[Query], Awaitable[Any]]) -> None:
        driver = hand.driver  # before the question: a pool takes a connection back that breaks meanwhile
        if driver in self._home.known:
            return
        [row] = await ask(Query(self._home.statements["surroundings"]))
        theirs: Place = tuple(row)
        ours = await self._aside(lambda: self._home.place(theirs))
        if ours != theirs:
            server = "" if theirs[0] != ours[0] else " on another server"
            raise ConfigurationError(
                f"this connection leads to database {theirs[0]}{server}, and the jobs are in schema"
                f" {self._home.address.schema} of {self._home.address.name}: only a connection to that database can"
                " share a transaction with them"
            )
        self._home.known.add(driver)

    async def _undo(self, error: BaseException, hand: Hand | None, undo: Undo) -> None:
        """Undo because of an error, which is what counts whether this succeeds or not."""
        if code_of(error) in _NOTHING_TO_UNDO:
            return
        try:
            await self._to_its_end(self._undone(error, hand, undo))
        except asyncio.CancelledError as cancelled:  # meanwhile: it is raised in the place of the error
            for note in getattr(error, "__notes__", ()):
                cancelled.add_note(note)
            raise

    async def _undone(self, error: BaseException, hand: Hand | None, undo: Undo) -> None:
        """Undo a call that raises, or make sure that its transaction cannot be committed."""
        try:
            if hand is not None and hand.is_cut_short:
                await self._drop(hand)
            if hand is not None and hand.standing is Standing.CLOSED:
                error.add_note("your connection is closed, and its transaction rolled back")
                await self._foreign.note_loss()
            elif (await self._in_time(undo())) is False:
                error.add_note("its transaction cannot be committed any more: roll it back")
        except BaseException as failure:
            error.add_note(f"it could not be undone ({type(failure).__name__}): roll your transaction back")
            if hand is not None and code_of(failure) is None:  # else the server has refused, and will the commit
                with suppress(Exception):
                    await self._drop(hand)
                    await self._foreign.note_loss()
            if not isinstance(failure, Exception):
                raise

    async def _drop(self, hand: Hand) -> None:
        """Close a connection that was interrupted in the middle of a call: that ends its transaction."""
        await self._in_time(hand.close())

    async def _in_time(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Await a short call, with a time limit for async drivers: sync drivers offer none."""
        return await (asyncio.wait_for(coroutine, _PATIENCE) if self._foreign.is_async else coroutine)

    async def _ask_apart(self, statement: Try) -> Any:
        """Run a statement on a connection of our own, where it is committed whatever becomes of the transaction."""

        def steps() -> Steps[Any]:
            return (yield statement)

        return await self._aside(lambda: self._home.run(Verb("apart", Access.WRITE, steps(), again=steps)))

    async def _aside(self, work: Callable[[], T]) -> T:
        """Do what blocks; the others of an event loop go on meanwhile."""
        return await asyncio.to_thread(work) if self._foreign.is_async else work()

    async def _to_its_end(self, coroutine: Coroutine[Any, Any, T], within: float = _PATIENCE) -> T:
        """Await a coroutine. A cancellation interrupts it once, after `within` seconds."""
        return await (to_its_end(coroutine, within) if self._foreign.is_async else coroutine)


class Joined:
    """The same for a sync connection."""

    def __init__(self, connection: Foreign, home: Home) -> None:
        self._joined = AsyncJoined(connection, home)

    def run(self, verb: Verb[T]) -> T:
        """Run a verb in the transaction that is open, or in one that the user's commit() or rollback() ends."""
        return run_at_once(self._joined.run(verb))

    def begin(self) -> None:
        """Begin a transaction that `commit` or `rollback` ends; one that is open already is taken over."""
        run_at_once(self._joined.begin())

    def commit(self) -> None:
        """Commit what began with `begin`. If that fails, whatever the reason, the caller has to roll back."""
        run_at_once(self._joined.commit())

    def rollback(self) -> None:
        """Undo everything since `begin`, and what was open before it."""
        run_at_once(self._joined.rollback())


def join(connection: Any, home: Home) -> Joined:
    """Return the transaction on a sync connection of the user's own."""
    found = foreign(connection)
    if found.is_async:
        raise to_be_awaited(connection)
    return Joined(found, home)


def ajoin(connection: Any, home: Home) -> AsyncJoined:
    """Return the transaction on an async connection of the user's own."""
    found = foreign(connection)
    if not found.is_async:
        raise not_awaited(connection)
    return AsyncJoined(found, home)


async def _first(hand: Hand, statement: Query) -> Any:
    return (await hand.ask([statement]))[0]
