"""The statements and migrations of this store, with the name of its schema put in.

In the files the schema is written `standfast.`; parameters have types, so that the server reads `$1::type`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, TypeVar

import psycopg

from standfast.stores.postgres.readiness import OverdueError, Waits, go_through
from standfast.stores.postgres.wire import Call, LostError, Result, Wire, call
from standfast.stores.statements import read_statements, sql_files
from standfast.stores.verb import Bulk, Command, Last, Query, Statement, Steps, Together, Try

_FOLDER = files(__package__)
_SCHEMA = re.compile(r"\bstandfast\.")


@cache
def load_statements(schema: str) -> Mapping[str, str]:
    """Return every named statement, for the tables of a schema."""
    statements = read_statements(_FOLDER / "sql")
    return MappingProxyType({name: _placed(text, schema) for name, text in statements.items()})


@cache
def load_migrations(schema: str) -> tuple[str, ...]:
    """Return the migrations in order, each as one script."""
    return tuple(_placed(file.read_text("utf-8"), schema) for file in sql_files(_FOLDER / "migrations"))


def _placed(text: str, schema: str) -> str:
    return _SCHEMA.sub(f'"{schema}".', text)


# Runs the statements of a verb on a connection of our own, in as few round trips as they allow.
#
#     Last, alone, and Try       one message: the server commits at its end
#     …, …, Last                 BEGIN goes with the first, COMMIT with the last
#     …, …                       COMMIT has a message of its own, as nobody knew which would be the last
#
# What rings the bell goes with the message that commits, behind it: in a transaction of its own, after the commit. A
# ring sent before would wake workers who find nothing yet, and sleep again.

T = TypeVar("T")

_BEGIN = call("BEGIN ISOLATION LEVEL READ COMMITTED")
_COMMIT = call("COMMIT")
_ROLLBACK = call("ROLLBACK")


class LongerError(Exception):
    """A verb has come to a statement that does not commit at its end: somebody else is to go on with it."""

    def __init__(self, statement: Statement) -> None:
        super().__init__()
        self.statement = statement


def run_steps(
    wire: Wire,
    steps: Steps[T],
    until: float,
    after: Callable[[], Sequence[Call]] = tuple,
    begun: Statement | None = None,
) -> T:
    """Feed a verb the answers to its statements until it returns, in one transaction; then send `after`. It blocks.

    What that is may be known only once the verb has run: whether it has set free a job that waited. `begun` is the
    statement that the verb has come to, if it was begun before.
    """
    return wire.ready.go_through(_running(wire, steps, after, begun), until)


async def arun_steps(wire: Wire, steps: Steps[T], until: float, after: Callable[[], Sequence[Call]] = tuple) -> T:
    """Do as `run_steps` does, in a coroutine, as far as no transaction stays open from one message to the next.

    Whoever blocks the event loop then would block all who wait for a lock of that transaction, and for ever if that
    is himself. Raises LongerError instead, before anything of it is sent.
    """
    return await go_through(wire.ready, _running(wire, steps, after, alone=True), until)


def _running(
    wire: Wire,
    steps: Steps[T],
    after: Callable[[], Sequence[Call]],
    begun: Statement | None = None,
    *,
    alone: bool = False,
) -> Waits[T]:
    transaction = _Transaction(wire, after, alone=alone)
    answer: T
    try:
        try:
            statement = next(steps) if begun is None else begun
            while True:
                statement = steps.send((yield from transaction.answer(statement)))
        except StopIteration as stop:
            answer = stop.value
        except LongerError:
            raise
        except BaseException:
            steps.close()
            raise
        yield from transaction.commit()
    except GeneratorExit:
        transaction.hang_up()
        raise
    except BaseException:
        yield from transaction.give_up()
        raise
    return answer


class _Transaction:
    """The transaction of one verb, which begins with its first statement; `alone`, it has to end with that too."""

    def __init__(self, wire: Wire, after: Callable[[], Sequence[Call]], *, alone: bool) -> None:
        self._wire = wire
        self._after = after
        self._alone = alone
        self._open = False
        self._over = False

    def answer(self, statement: Statement) -> Waits[Any]:
        """Run a statement and return its answer."""
        if self._over:
            raise TypeError("the statement before was said to be the last of its verb")
        if isinstance(statement, Last):
            self._over = True
            return (yield from self._run_last(statement.statement, self._after))
        if isinstance(statement, Try):
            return (yield from self._run_last(statement.statement, tuple))
        if self._alone:
            raise LongerError(statement)
        calls = _calls(statement)
        if not calls:
            return _answer(self._wire, statement, [])
        head = [] if self._open else [_BEGIN]
        self._open = True
        try:
            results = yield from self._wire.asking([*head, *calls])
        except LostError as lost:
            lost.may_be_done = False  # nothing commits before the end
            raise
        return _answer(self._wire, statement, results[len(head) :])

    def commit(self) -> Waits[None]:
        """Commit, unless that was done with the last statement."""
        if self._open:
            yield from self._committing([_COMMIT], self._after())
            self._open = False

    def give_up(self) -> Waits[None]:
        """Undo what is not committed; where that cannot be told to the server, it will see us hang up."""
        if not self._open:
            return
        self._open = False
        if not self._wire.settled:
            self._wire.close()
            return
        try:
            yield from self._wire.telling([_ROLLBACK])
        except (psycopg.Error, OverdueError):
            self._wire.close()

    def hang_up(self) -> None:
        """Undo what is not committed, at once: nobody waits any more."""
        if self._open or not self._wire.settled:
            self._wire.close()

    def _run_last(self, statement: Query | Command | Together, after: Callable[[], Sequence[Call]]) -> Waits[Any]:
        calls = _calls(statement)
        # A group of calls is a transaction by itself. Behind a pooler it would be one of unknown isolation.
        head = [_BEGIN] if self._wire.pooled and not self._open else []
        tail = [_COMMIT] if self._open or head else []
        self._open = bool(tail)
        results = yield from self._committing([*head, *calls, *tail], after())
        self._open = False
        return _answer(self._wire, statement, results[len(head) : len(head) + len(calls)])

    def _committing(self, calls: Sequence[Call], after: Sequence[Call]) -> Waits[list[Result]]:
        """Send calls that end in a commit. If no answer to them comes in time, the verb may be committed."""
        try:
            return (yield from self._wire.asking(calls, after))
        except OverdueError as overdue:
            overdue.may_be_done = True
            raise


def _calls(statement: Statement) -> list[Call]:
    if isinstance(statement, Query | Command):
        return [call(statement.sql, statement.params)]
    if isinstance(statement, Together):
        return [call(each.sql, each.params) for each in statement.statements]
    if isinstance(statement, Bulk):
        return [call(statement.sql, row) for row in statement.rows]
    raise TypeError(f"PostgreSQL cannot run a {type(statement).__name__}: it is of another store")


def _answer(wire: Wire, statement: Statement, results: Sequence[Result]) -> Any:
    if isinstance(statement, Query):
        return wire.rows(results[0])
    if isinstance(statement, Together):
        return [_answer(wire, each, [result]) for each, result in zip(statement.statements, results, strict=True)]
    return sum(result.command_tuples or 0 for result in results)
