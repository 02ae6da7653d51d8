"""Verbs inside a transaction of the user's own, in PostgreSQL.

What a transaction of the user's own has to know of the store that takes part in it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

import psycopg
from psycopg.pq import DiagnosticField

from standfast.errors import (
    ConfigurationError,
    StandfastError,
    StoreError,
    StoreUnavailableError,
    ValueNotStoredError,
)
from standfast.model.concurrency import await_to_end, run_without_loop
from standfast.stores.postgres.translate import translate
from standfast.stores.postgres.url import Address
from standfast.stores.user_connection import (
    TransactionState,
    UserConnection,
    UserCursor,
    comes_from,
    not_awaited,
    to_be_awaited,
    user_connection,
)
from standfast.stores.verb import (
    Access,
    Bulk,
    Command,
    Last,
    Query,
    Statement,
    Steps,
    Together,
    Tone,
    Try,
    Verb,
    afollow,
)

Place = tuple[str, str]
"""A database, and since when its server runs."""


@dataclass(slots=True, eq=False)
class Home:
    """Where the jobs are, how to make that place ready, and how to ask it and to ring its bell."""

    address: Address
    statements: Mapping[str, str]
    channels: Mapping[Tone, str]
    """What to NOTIFY for each tone."""
    prepare: Callable[[], None]
    """Makes the schema ready on a connection of our own; cheap where nothing is to be done."""
    is_prepared: Callable[[], bool]
    run: Callable[[Verb[Any]], Any]
    """Runs a verb on a connection of our own."""
    known: WeakSet[Any] = field(default_factory=WeakSet, init=False)
    """The connections of drivers that were found to lead here."""
    _place: Place | None = field(default=None, init=False)

    def place(self, other: Place) -> Place:
        """Return where the jobs are. If that was another place, ask again: the server may have been restarted."""
        if self._place is None or self._place != other:
            self._place = self.run(Verb("surroundings", Access.READ, self._surroundings()))
        return self._place

    def _surroundings(self) -> Steps[Place]:
        [(database, since)] = yield Query(self.statements["surroundings"])
        return database, since


# What the libraries of the user raise becomes our own errors, whichever of them it was.

_LAYERS = ("sqlalchemy", "django")
_DRIVERS = ("psycopg", "asyncpg", "psycopg2")

NO_TRANSACTION = (
    "this connection is in autocommit mode and no transaction is open, so there is none to join: begin one, as in"
    " `with connection.transaction():` of psycopg and, with async, of asyncpg, `connection.autocommit = False` of"
    " psycopg2, `with transaction.atomic():` of Django, or `with engine.begin() as connection:` of SQLAlchemy"
)
FAILED = "a statement has failed in this transaction, which can only be rolled back: do that, and begin again"
CLOSED = "this connection is closed or lost: give one that is open"

_OF_THE_TRANSACTION = {
    "25P01": NO_TRANSACTION,
    "25P02": FAILED,
    "25006": "this transaction is read-only, or its server is a replica: give one that may write",
}
_REPEAT = {
    "40001": "another one changed the same rows at the same time",
    "40P01": "it and another one waited for each other",
}


@contextmanager
def translated(address: Address, *, is_async: bool) -> Iterator[None]:
    """Let no error of a driver, or of a layer above one, escape.

    Of the drivers only asyncpg raises OSErrors. In sync code an OSError comes from elsewhere: a signal handler may
    raise a TimeoutError, for example.
    """
    try:
        yield
    except StandfastError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and not is_async:
            raise
        told = _told(error, address)
        if told is None:
            raise
        raise told from error


def code_of(error: BaseException) -> str | None:
    """Return the state by which the server names an error, whatever driver brought it."""
    found = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    return found if isinstance(found, str) else None


def _told(error: Exception, address: Address) -> StandfastError | None:
    if isinstance(error, UnicodeEncodeError | OverflowError):
        return _not_stored(error)
    if isinstance(error, OSError):
        return _lost(address)
    if any(comes_from(layer, error) for layer in _LAYERS):
        below = getattr(error, "orig", None) or error.__cause__
        return (isinstance(below, Exception) and _told(below, address)) or _unusable(error)
    if not any(comes_from(driver, error) for driver in _DRIVERS):
        return None
    code = code_of(error)
    return _without_code(error, address) if code is None else _with_code(error, code, address)


def _with_code(error: Exception, code: str, address: Address) -> StandfastError:
    if code in _OF_THE_TRANSACTION:
        return ConfigurationError(_OF_THE_TRANSACTION[code])
    if code in _REPEAT:
        return StoreUnavailableError(
            f"{address.name} refuses to go on with this transaction, as {_REPEAT[code]}: roll back and repeat it"
        )
    if code.startswith("22") and not isinstance(error, psycopg.Error):
        return _not_stored(error)
    return translate(_as_psycopg(error, code), address)


def _without_code(error: Exception, address: Address) -> StandfastError:
    """Return our error for what a driver raised by itself; the names of its classes are those of PEP 249."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if "DataError" in names:
        return _not_stored(error)
    return _lost(address) if "OperationalError" in names else _unusable(error)


def _as_psycopg(error: Exception, code: str) -> psycopg.Error:
    if isinstance(error, psycopg.Error):
        return error
    words = getattr(getattr(error, "diag", None), "message_primary", None) or str(
        error.args[0] if error.args else ""
    )
    try:
        kind = psycopg.errors.lookup(code)
    except KeyError:
        kind = psycopg.errors.lookup("XX000")
    return kind(words, info={DiagnosticField.MESSAGE_PRIMARY: words.encode()}, encoding="utf-8")


def _not_stored(error: Exception) -> ValueNotStoredError:
    # Without its words: they may quote the value.
    return ValueNotStoredError(f"PostgreSQL cannot store a value of this call ({type(error).__name__})")


def _lost(address: Address) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"your connection to {address.name} is lost: open another, and repeat the transaction"
    )


def _unusable(error: Exception) -> ConfigurationError:
    words: Any = str(error).strip() or type(error).__name__
    return ConfigurationError(f"this connection cannot be used here: {words.splitlines()[0]}")


# Runs one verb on a connection of the user's own, inside a savepoint.
#
#     Last, alone        SAVEPOINT, the statement, NOTIFY and RELEASE in one message, where the driver can
#     …, …, Last         SAVEPOINT has a message of its own; NOTIFY and RELEASE go with the last
#     async              RELEASE has a message of its own: until it is sent, a cancelled call is undone
#
# A cancellation may come at any time. It interrupts single statements, because they may have to wait for others. It
# does not interrupt the messages that make or end the savepoint, so there is always one to go back to, or nothing to
# undo. In sync code a signal handler may raise at any time too. A call that raises after its RELEASE is in the
# transaction and cannot be undone. Then the commit is made to fail, by a cursor whose rows it has to fetch.


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
        hand: UserCursor,
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
        if self._releasing and self._hand.standing is not TransactionState.FAILED:
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


# Takes part in a transaction of the user's own: our statements on their connection, their commit or rollback.
#
# Each verb has a savepoint, so that one that fails leaves the transaction usable, with nothing of ours in it. What
# rings the bell is part of the transaction too: the server passes it on after the commit, and drops it otherwise.
#
#     run:     SAVEPOINT ─► [look around] ─► the verb ─► NOTIFY ─► RELEASE
#     begin:   [BEGIN] ─► SAVEPOINT ─► [look around]
#     commit:  RELEASE, which fails if the user ended the transaction in between ─► COMMIT
#
# Around is looked once on each connection: whether it leads to the database that the jobs are in.

T = TypeVar("T")

Undo = Callable[[], Coroutine[Any, Any, Any]]
"""Undoes what a call has done. It returns False if that was too late, and has then made every commit fail."""

_PATIENCE = 5.0
"""Seconds that a cancelled call waits for the answer that is under way, and again for the answer to its undoing."""

_SAVE_WHOLE = Command("SAVEPOINT standfast_whole")
_KEEP_WHOLE = Command("RELEASE SAVEPOINT standfast_whole")
_UNDO_WHOLE = Command("ROLLBACK TO SAVEPOINT standfast_whole")

_REFUSALS = {
    TransactionState.ABSENT: NO_TRANSACTION,
    TransactionState.FAILED: FAILED,
    TransactionState.CLOSED: CLOSED,
}
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

    def __init__(self, connection: UserConnection, home: Home) -> None:
        self._foreign = connection
        self._home = home
        self._whole = False

    async def run(self, verb: Verb[T]) -> T:
        """Run a verb in the transaction that is open, or in one that the user's commit or rollback ends."""
        with self._translated():
            await self._prepare()
            hand = await self._to_its_end(self._foreign.enter())
            await self._check(hand)
        begins, apart = hand.standing is TransactionState.IDLE, self._foreign.is_async
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
            await hand.ask([_SAVE_WHOLE])
            saved = True
            await self._look_around(hand, lambda query: _first(hand, query))
            self._whole = True
        except BaseException as error:
            if self._foreign.has_begun:
                await self._undo(error, hand, self._foreign.rollback)
            elif hand is not None and saved:
                await self._undo(error, hand, lambda: hand.ask([_UNDO_WHOLE, _KEEP_WHOLE]))
            with self._translated():
                raise

    async def commit(self) -> None:
        """Commit what began with `begin`. If that fails, whatever the reason, the caller has to roll back."""
        with self._translated():
            hand = await self._foreign.enter()
            try:
                await hand.ask([_KEEP_WHOLE])
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

    async def _check(self, hand: UserCursor) -> None:
        """Refuse what cannot be written to, as far as the driver knows."""
        standing = hand.standing
        if standing is TransactionState.ABSENT and self._whole:
            raise StoreError(_ENDED_INSIDE)
        if standing is TransactionState.CLOSED:
            await self._foreign.note_loss()
        if standing in _REFUSALS:
            raise ConfigurationError(_REFUSALS[standing])

    async def _look_around(self, hand: UserCursor, ask: Callable[[Query], Awaitable[Any]]) -> None:
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

    async def _undo(self, error: BaseException, hand: UserCursor | None, undo: Undo) -> None:
        """Undo because of an error, which is what counts whether this succeeds or not."""
        if code_of(error) in _NOTHING_TO_UNDO:
            return
        try:
            await self._to_its_end(self._undone(error, hand, undo))
        except asyncio.CancelledError as cancelled:  # meanwhile: it is raised in the place of the error
            for note in getattr(error, "__notes__", ()):
                cancelled.add_note(note)
            raise

    async def _undone(self, error: BaseException, hand: UserCursor | None, undo: Undo) -> None:
        """Undo a call that raises, or make sure that its transaction cannot be committed."""
        try:
            if hand is not None and hand.is_cut_short:
                await self._drop(hand)
            if hand is not None and hand.standing is TransactionState.CLOSED:
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

    async def _drop(self, hand: UserCursor) -> None:
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
        return await (await_to_end(coroutine, within) if self._foreign.is_async else coroutine)


class Joined:
    """The same for a sync connection."""

    def __init__(self, connection: UserConnection, home: Home) -> None:
        self._joined = AsyncJoined(connection, home)

    def run(self, verb: Verb[T]) -> T:
        """Run a verb in the transaction that is open, or in one that the user's commit() or rollback() ends."""
        return run_without_loop(self._joined.run(verb))

    def begin(self) -> None:
        """Begin a transaction that `commit` or `rollback` ends; one that is open already is taken over."""
        run_without_loop(self._joined.begin())

    def commit(self) -> None:
        """Commit what began with `begin`. If that fails, whatever the reason, the caller has to roll back."""
        run_without_loop(self._joined.commit())

    def rollback(self) -> None:
        """Undo everything since `begin`, and what was open before it."""
        run_without_loop(self._joined.rollback())


def join(connection: Any, home: Home) -> Joined:
    """Return the transaction on a sync connection of the user's own."""
    found = user_connection(connection)
    if found.is_async:
        raise to_be_awaited(connection)
    return Joined(found, home)


def ajoin(connection: Any, home: Home) -> AsyncJoined:
    """Return the transaction on an async connection of the user's own."""
    found = user_connection(connection)
    if not found.is_async:
        raise not_awaited(connection)
    return AsyncJoined(found, home)


async def _first(hand: UserCursor, statement: Query) -> Any:
    return (await hand.ask([statement]))[0]
