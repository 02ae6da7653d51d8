"""Connections to PostgreSQL on the wire: values, pipelines, and forks.

No connection crosses a fork.

Two processes on one connection would read each other's answers, and a child that closed it, or merely forgot it,
would say goodbye to the server in its parent's name. So in a child every inherited connection is kept for ever, is
neither used nor closed, and its descriptor leads nowhere: the parent alone holds the line, and when it ends the
server notices. What runs in the parent meanwhile goes on undisturbed, so a fork waits for nobody.

A fork past Python's handlers leaves the descriptor open in the child; even so nothing is used, as each process has
an engine of its own (backend.py), nor closed: psycopg closes nothing that another process opened.
"""

import os
import re
import struct
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

import psycopg
from psycopg import pq
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result

from standfast.errors import ValueNotStoredError
from standfast.stores.postgres.readiness import Readiness, Waits


class Line(Protocol):
    """Something with a connection behind it."""

    def fileno(self) -> int:
        """Return the descriptor of the connection."""
        ...


OPEN = WeakSet[Line]()
"""Every open connection of this process. One that nobody has any more is not: libpq hung up."""

_inherited: list[Line] = []


def _after_in_child() -> None:
    crossed = list(OPEN)
    OPEN.clear()
    _inherited.extend(crossed)
    if not crossed:
        return
    nowhere = os.open(os.devnull, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
    try:
        for line in crossed:
            # Not closed: its number would go to another file, which libpq might take for its own.
            with suppress(OSError):
                os.dup2(nowhere, line.fileno(), inheritable=False)
    finally:
        os.close(nowhere)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_in_child)


# How values travel to the server: each as the type says that the statement gives it, `$1::bigint` or `$2::text[]`.
#
# Psycopg picks a type by the value, so that one statement would be prepared once for small integers and once more for
# larger ones, and it looks at every item of a list by itself. Here the statement decides, once.

Dumped = bytes | None
_PARAMETER = re.compile(r"\$(\d+)(?:::\"?([a-z0-9_]+(?: precision)?)\"?(\[\])?)?")
_TEXT, _BINARY = 0, 1


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A statement as the server reads it: its name where it is prepared, and how its parameters are written.

    The name is made of the text. A pooler may lend one session to several processes, and there no name may mean one
    statement to one of them and another to the next.
    """

    name: bytes
    sql: bytes
    dumpers: tuple[Callable[[Any], bytes], ...]
    formats: tuple[int, ...]

    def dump(self, params: Sequence[Any]) -> list[Dumped]:
        """Return the parameters as bytes. Raises ValueNotStoredError for one that its type cannot hold."""
        if len(params) != len(self.dumpers):
            raise ValueError(f"{len(self.dumpers)} parameters are needed, {len(params)} are given: {self.sql!r}")
        try:
            return [
                None if value is None else dump(value) for value, dump in zip(params, self.dumpers, strict=True)
            ]
        except UnicodeEncodeError as error:
            raise ValueNotStoredError(
                f"PostgreSQL cannot store a value of this call ({error.reason} at position {error.start})"
            ) from error
        except ValueError as error:
            raise ValueNotStoredError("PostgreSQL cannot store a value of this call (no uuid)") from error


@cache
def prepared(sql: str) -> Prepared:
    """Return how a statement is sent."""
    types: dict[int, tuple[str, bool]] = {}
    highest = 0
    for number, name, many in _PARAMETER.findall(sql):
        highest = max(highest, int(number))
        if name:
            types.setdefault(int(number), (name, bool(many)))
    missing = [number for number in range(1, highest + 1) if number not in types]
    if missing:
        raise ValueError(f"the type of parameter ${missing[0]} is said nowhere, as in ${missing[0]}::bigint: {sql}")
    ways = [_way(*types[number]) for number in range(1, highest + 1)]
    return Prepared(
        name=b"standfast_" + blake2b(sql.encode(), digest_size=16).hexdigest().encode(),
        sql=sql.encode(),
        dumpers=tuple(dump for dump, _ in ways),
        formats=tuple(format_ for _, format_ in ways),
    )


def _way(type_: str, many: bool) -> tuple[Callable[[Any], bytes], int]:
    if many and type_ in _BINARY_ARRAYS:
        return _BINARY_ARRAYS[type_], _BINARY
    if many:
        return _text_array(_BOOLEAN if type_ in {"boolean", "bool"} else str), _TEXT
    if type_ == "text":
        return str.encode, _BINARY
    if type_ == "bytea":
        return bytes, _BINARY
    if type_ in {"boolean", "bool"}:
        return lambda value: b"t" if value else b"f", _TEXT
    return lambda value: str(value).encode(), _TEXT


_BOOLEAN: Callable[[Any], str] = {True: "t", False: "f"}.__getitem__


def _text_array(word: Callable[[Any], str]) -> Callable[[Sequence[Any]], bytes]:
    """Return what writes numbers and booleans: words that need no quotes."""

    def dump(values: Sequence[Any]) -> bytes:
        if None in values:
            return f"{{{','.join('NULL' if value is None else word(value) for value in values)}}}".encode()
        return f"{{{','.join(map(word, values))}}}".encode()

    return dump


_HEADER = struct.Struct("!iiiii")
_EMPTY = struct.Struct("!iii")
_length = struct.Struct("!i").pack
_NULL = _length(-1)
_UUID_BYTES = 16


def _binary_array(oid: int, encode: Callable[[Sequence[Any]], Sequence[bytes]]) -> Callable[[Sequence[Any]], bytes]:
    """Return what writes texts, bytes and uuids: no quotes to add and take away, and bytes stay what they are."""

    def dump(values: Sequence[Any]) -> bytes:
        if not values:
            return _EMPTY.pack(0, 0, oid)
        if None in values:
            return _HEADER.pack(1, 1, oid, len(values), 1) + b"".join(map(item_or_null, values))
        items = [_length(len(item)) + item for item in encode(values)]
        return _HEADER.pack(1, 0, oid, len(values), 1) + b"".join(items)

    def item_or_null(value: Any) -> bytes:
        if value is None:
            return _NULL
        [item] = encode([value])
        return _length(len(item)) + item

    return dump


def _texts(values: Sequence[str]) -> Sequence[bytes]:
    return [value.encode() for value in values]


def _bytes(values: Sequence[bytes]) -> Sequence[bytes]:
    return [bytes(value) for value in values]


def _uuids(values: Sequence[str]) -> Sequence[bytes]:
    # The server reads these in a fraction of the time that it takes for their texts.
    numbers = list(map(bytes.fromhex, [value.replace("-", "") for value in values]))
    if {*map(len, numbers)} != {_UUID_BYTES}:
        raise ValueError("an item is too long or too short")
    return numbers


_BINARY_ARRAYS = {
    "text": _binary_array(25, _texts),
    "bytea": _binary_array(17, _bytes),
    "uuid": _binary_array(2950, _uuids),
}


# One connection to the server, on which nothing waits longer than it is told to.
#
# It speaks libpq's pipeline mode all the time: what is sent together takes one round trip, and each group of calls
# ends with a Sync, which makes it a transaction of its own unless one is open. Psycopg connects and reads the values;
# the waiting in between is done here, because every wait has an end, and because it takes half the time of a cursor.
#
# What is said is written once, as conversations (waiting.py) that a thread or a coroutine goes through.

T = TypeVar("T")

Call = tuple[Prepared, list[Dumped]]
"""A statement and its parameters, ready to be sent."""

Result = pq.abc.PGresult
_Awaited = Prepared | str
"""What the server will answer: to a preparation, named by its statement, to a call, or to the Sync of a group."""
_CALL, _SYNC = "call", "sync"

_FAILED = (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.BAD_RESPONSE)
_DONE = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)
_ABORTED = pq.ExecStatus.PIPELINE_ABORTED
_SYNCED = pq.ExecStatus.PIPELINE_SYNC
_BINARY_RESULTS = 1


class LostError(psycopg.OperationalError):
    """The connection broke before all was answered: what was asked may have been done."""

    def __init__(self, reason: psycopg.Error, *, refused: bool = False) -> None:
        super().__init__(str(reason))
        self.reason = reason
        """What the server said before it hung up, or else what libpq says."""
        self.may_be_done = not refused
        """Whether the server may have committed the calls: not if it had answered with an error before."""


class ForgottenError(LostError):
    """The server has refused a statement because it does not know it as it was prepared on this connection.

    Nothing of the call is committed. The connection serves on, and prepares no statement any more.
    """

    def __init__(self, reason: psycopg.Error) -> None:
        super().__init__(reason, refused=True)


def call(sql: str, params: Sequence[Any] = ()) -> Call:
    """Return a statement and its parameters as they are sent."""
    statement = prepared(sql)
    return statement, statement.dump(params)


class Connection(psycopg.Connection[Any]):
    """A connection that does not complain when a forked child, which may not close it, forgets it."""

    def __del__(self, _warn: object = None, /) -> None:
        """Leave the goodbye to libpq's own part, which says it in the process that opened it and in no other."""


class Wire:
    """A connection of our own. One thread at a time may use it."""

    def __init__(self, connection: Connection, *, pooled: bool) -> None:
        self._connection = connection
        self._pg = connection.pgconn
        self._descriptor = self._pg.socket
        self.ready = Readiness(self._descriptor)
        """What goes through a conversation of this connection and waits for the server in between."""
        self._values = Transformer(connection)
        self._known = set[bytes]()
        self._awaited = deque[_Awaited]()
        self._groups = 0
        self.pooled = pooled
        """Whether a pooler stands in between, as the URL says or an error shows: nothing of a session lasts longer
        than a transaction."""
        self.settled = True
        """Whether every call was read to its end, so that the next may follow."""
        self.used_at = time.monotonic()
        OPEN.add(self)
        self._pg.enter_pipeline_mode()

    def fileno(self) -> int:
        """Return the descriptor of the connection."""
        return self._descriptor

    @property
    def is_open(self) -> bool:
        """Whether the line is there, as far as is known without asking."""
        return self._pg.status == pq.ConnStatus.OK

    @property
    def server_version(self) -> int:
        """The first number of the server's version."""
        return self._pg.server_version // 10_000

    @property
    def process(self) -> int:
        """The process that serves this connection, as the server said, or a pooler in its place."""
        return self._pg.backend_pid

    def ask(self, calls: Sequence[Call], until: float, after: Sequence[Call] = ()) -> list[Result]:
        """Send calls at once, and return their results, blocking."""
        return self.ready.go_through(self.asking(calls, after), until)

    def tell(self, calls: Sequence[Call], until: float) -> None:
        """Send calls whose results nobody needs, blocking."""
        self.ready.go_through(self.telling(calls), until)

    def asking(self, calls: Sequence[Call], after: Sequence[Call] = ()) -> Waits[list[Result]]:
        """Send calls at once, and return their results once the server has committed them. Raises LostError.

        `after` goes along, and is done by the server in a transaction of its own after these have ended; nobody
        waits for it, or hears whether it worked.
        """
        self.settled = False
        pooled = self.pooled
        try:
            if pooled:
                # A pooler may take the first answer for the end of all that was sent: one group at a time.
                yield from self._read_groups()
            self._send(calls)
            last = self._groups
            if after and not pooled:
                self._send(after)
            if self._pg.flush():
                yield from self._flush()
            if last > 1:
                yield from self._read_earlier(self._groups - last + 1)
            results, error = yield from self._read_group()
            if after and pooled:
                self._send(after)
                yield from self._flush()
        except LostError:
            raise
        except psycopg.Error as lost:
            raise LostError(lost) from lost
        self.settled = True
        self.used_at = time.monotonic()
        if error is not None:
            raise ForgottenError(error) if _is_of_preparation(error) else error
        return results

    def telling(self, calls: Sequence[Call]) -> Waits[None]:
        """Send calls whose results nobody needs."""
        self.settled = False
        if self.pooled:
            yield from self._read_groups()
        self._send(calls)
        yield from self._flush()
        self.settled = True

    def run_script(self, sql: str, until: float) -> None:
        """Run several statements without parameters, as they stand in a file, blocking."""
        self.ready.go_through(self._running_script(sql), until)

    def rows(self, result: Result) -> list[Any]:
        """Return the rows of a result as tuples."""
        self._values.set_pgresult(result)
        return self._values.load_rows(0, result.ntuples, tuple)

    def catch_up(self) -> psycopg.Error | None:
        """Take in what the server has sent meanwhile, without waiting; return an error if it told of one.

        Raises an error if it has hung up.
        """
        while self.ready.is_readable():
            self._pg.consume_input()
        error = None
        while self._awaited and not self._pg.is_busy():
            error = self._take_one()[1] or error
        return error

    @property
    def is_quiet(self) -> bool:
        """Whether no answer is awaited."""
        return not self._awaited

    def heard(self) -> list[str]:
        """Return the channels of the notifications that came in before the last `catch_up`."""
        self._pg.is_busy()  # what was read is looked through
        channels = []
        while (notice := self._pg.notifies()) is not None:
            channels.append(notice.relname.decode())
        return channels

    def close(self) -> None:
        """Hang up; repeated, do nothing."""
        OPEN.discard(self)
        self.settled = False
        with suppress(psycopg.Error):
            self._connection.close()

    def _send(self, calls: Sequence[Call]) -> None:
        for statement, params in calls:
            if self.pooled:
                self._pg.send_query_params(
                    statement.sql, params, param_formats=statement.formats, result_format=_BINARY_RESULTS
                )
            else:
                if statement.name not in self._known:
                    self._pg.send_prepare(statement.name, statement.sql)
                    self._known.add(statement.name)
                    self._awaited.append(statement)
                self._pg.send_query_prepared(
                    statement.name, params, param_formats=statement.formats, result_format=_BINARY_RESULTS
                )
            self._awaited.append(_CALL)
        self._pg.pipeline_sync()
        self._awaited.append(_SYNC)
        self._groups += 1

    def _running_script(self, sql: str) -> Waits[None]:
        self.settled = False
        yield from self._read_groups()
        self._pg.exit_pipeline_mode()
        self._pg.send_query(sql.encode())
        yield from self._flush()
        error = None
        while True:
            while self._pg.is_busy():
                yield False
                self._pg.consume_input()
            result = self._pg.get_result()
            if result is None:
                break
            if result.status in _FAILED:
                error = _error(result)
        self._pg.enter_pipeline_mode()
        self.settled = True
        if error is not None:
            raise error

    def _read_earlier(self, but: int) -> Waits[None]:
        """Read, and drop, the answers to what was sent before."""
        try:
            yield from self._read_groups(but)
        except LostError as lost:
            lost.may_be_done = True  # a refusal in there was of earlier calls, not of these
            raise

    def _flush(self) -> Waits[None]:
        while self._pg.flush():
            yield True
            self._pg.consume_input()

    def _read_groups(self, but: int = 0) -> Waits[None]:
        """Read, and drop, the answers to all groups but the last ones."""
        while self._groups > but:
            yield from self._read_group()

    def _read_group(self) -> Waits[tuple[list[Result], psycopg.Error | None]]:
        """Return the results of the calls up to the next Sync, and the first error among them.

        An error in the place of the Sync is the commit's, and the Sync is still to come.
        """
        results: list[Result] = []
        first: psycopg.Error | None = None
        groups = self._groups
        try:
            while self._groups == groups:
                while self._pg.is_busy():
                    yield False
                    self._pg.consume_input()
                kind = self._awaited[0]
                result, error = self._take_one()
                first = first or error
                if kind is _CALL:
                    results.append(result)
        except psycopg.Error as lost:
            raise LostError(first or lost, refused=_is_refusal(first)) from lost
        return results, first

    def _take_one(self) -> tuple[Result, psycopg.Error | None]:
        """Return the next result, which came in, and the error that it tells of. Raises one that is out of place.

        After each result but a Sync libpq returns a None, for which nothing has to come in. To ask it for more than
        has come in would block.
        """
        result = self._pg.get_result()
        status = None if result is None else result.status
        kind = self._awaited[0]
        if kind is _CALL and status in _DONE and result is not None:  # most often
            self._pg.get_result()
            self._awaited.popleft()
            return result, None
        if result is None or ((status == _SYNCED) is not (kind is _SYNC) and status not in _FAILED):
            raise psycopg.OperationalError("the connection is lost")
        if status == _SYNCED:
            self._awaited.popleft()
            self._groups -= 1
            return result, None
        self._pg.get_result()
        if kind is not _SYNC:
            self._awaited.popleft()
        failed = status in _FAILED
        if isinstance(kind, Prepared) and (failed or status == _ABORTED):
            self._known.discard(kind.name)
        if not failed:
            return result, None
        error = _error(result)
        if _is_of_preparation(error):
            self.pooled = True
            self._known.clear()
        return result, error


def _is_refusal(error: psycopg.Error | None) -> bool:
    """Tell whether this error means that nothing is committed: an ERROR does, the FATAL end of a connection not."""
    return error is not None and error.diag.severity_nonlocalized == "ERROR"


def _is_of_preparation(error: psycopg.Error) -> bool:
    """Tell whether the server does not know a statement as it was prepared.

    A pooler has given this connection another session, or has reset it; or a table has changed since.
    """
    return error.sqlstate in {"26000", "42P05"} or error.diag.source_function == "RevalidateCachedQuery"


def _error(result: Result) -> psycopg.Error:
    """Return the error that the server tells of, without the details: these may quote what is in a row."""
    error = error_from_result(result, encoding="utf-8")
    error.args = (error.diag.message_primary or "no details",)
    return error
