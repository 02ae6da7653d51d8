"""One connection to the server, on which nothing waits longer than it is told to.

It speaks libpq's pipeline mode all the time: what is sent together takes one round trip, and each group of calls
ends with a Sync, which makes it a transaction of its own unless one is open. Psycopg connects and reads the values;
the waiting in between is done here, because every wait has an end, and because it takes half the time of a cursor.
"""

import select
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import pq
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result

from holdfast.store.postgres.forks import OPEN
from holdfast.store.postgres.values import Dumped, Prepared

Call = tuple[Prepared, list[Dumped]]
"""A statement and its parameters, ready to be sent."""

Result = pq.abc.PGresult
_Awaited = Prepared | str
"""What the server will answer: to a preparation, named by its statement, to a call, or to the Sync of a group."""
_CALL, _SYNC = "call", "sync"

_FAILED = (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.BAD_RESPONSE)
_ABORTED = pq.ExecStatus.PIPELINE_ABORTED
_BINARY = 1
_NO_WAIT = 0.0


class OverdueError(Exception):
    """The server did not answer in time: the connection is of no use any more."""


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
        self._ready = _Readiness(self._descriptor)
        self._values = Transformer(connection)
        self._known = set[bytes]()
        self._awaited = deque[_Awaited]()
        self._groups = 0
        self.pooled = pooled
        """Whether a pooler stands in between: nothing of a session lasts longer than a transaction."""
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
        """Send calls at once, and return their results.

        `after` goes along, and is done by the server in a transaction of its own after these have ended; nobody
        waits for it, or hears whether it worked.
        """
        self.settled = False
        if self.pooled:
            # A pooler may take the first answer for the end of all that was sent: one group at a time.
            self._read_groups(until)
        self._send(calls)
        if after and not self.pooled:
            self._send(after)
        self._flush(until)
        self._read_groups(until, but=2 if after and not self.pooled else 1)
        results, error = self._read_group(until)
        if after and self.pooled:
            self._send(after)
            self._flush(until)
        self.settled = True
        self.used_at = time.monotonic()
        if error is not None:
            raise error
        return results

    def tell(self, calls: Sequence[Call], until: float) -> None:
        """Send calls whose results nobody needs."""
        self.settled = False
        if self.pooled:
            self._read_groups(until)
        self._send(calls)
        self._flush(until)
        self.settled = True

    def run_script(self, sql: str, until: float) -> None:
        """Run several statements without parameters, as they stand in a file."""
        self.settled = False
        self._read_groups(until)
        self._pg.exit_pipeline_mode()
        self._pg.send_query(sql.encode())
        self._flush(until)
        error = None
        while (result := self._next_result(until)) is not None:
            if result.status in _FAILED:
                error = _error(result)
        self._pg.enter_pipeline_mode()
        self.settled = True
        if error is not None:
            raise error

    def rows(self, result: Result) -> list[Any]:
        """Return the rows of a result as tuples."""
        self._values.set_pgresult(result)
        return self._values.load_rows(0, result.ntuples, tuple)

    def catch_up(self) -> psycopg.Error | None:
        """Take in what the server has sent meanwhile, without waiting; return an error if it told of one.

        Raises an error if it has hung up.
        """
        while self._ready.is_readable():
            self._pg.consume_input()
        error = None
        while self._awaited and not self._pg.is_busy():
            error = self._read_one(_NO_WAIT)[1] or error
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
                    statement.sql, params, param_formats=statement.formats, result_format=_BINARY
                )
            else:
                if statement.name not in self._known:
                    self._pg.send_prepare(statement.name, statement.sql)
                    self._known.add(statement.name)
                    self._awaited.append(statement)
                self._pg.send_query_prepared(
                    statement.name, params, param_formats=statement.formats, result_format=_BINARY
                )
            self._awaited.append(_CALL)
        self._pg.pipeline_sync()
        self._awaited.append(_SYNC)
        self._groups += 1

    def _flush(self, until: float) -> None:
        while self._pg.flush():
            if self._ready.wait(until, writing=True):
                self._pg.consume_input()

    def _read_groups(self, until: float, but: int = 0) -> None:
        """Read, and drop, the answers to all groups but the last ones."""
        while self._groups > but:
            self._read_group(until)

    def _read_group(self, until: float) -> tuple[list[Result], psycopg.Error | None]:
        """Return the results of the calls up to the next Sync, and the first error among them."""
        results: list[Result] = []
        first: psycopg.Error | None = None
        while (kind := self._awaited[0]) is not _SYNC:
            result, error = self._read_one(until)
            first = first or error
            if kind is _CALL:
                results.append(result)
        self._read_one(until)
        return results, first

    def _read_one(self, until: float) -> tuple[Result, psycopg.Error | None]:
        result = self._next_result(until)
        if result is None:
            raise psycopg.OperationalError("the connection is lost")
        kind = self._awaited.popleft()
        if kind is _SYNC:
            self._groups -= 1
            return result, None
        self._next_result(until)  # the None behind each
        failed = result.status in _FAILED
        if isinstance(kind, Prepared) and (failed or result.status == _ABORTED):
            self._known.discard(kind.name)
        return result, _error(result) if failed else None

    def _next_result(self, until: float) -> Result | None:
        while self._pg.is_busy():
            self._ready.wait(until)
            self._pg.consume_input()
        return self._pg.get_result()


def _error(result: Result) -> psycopg.Error:
    """Return the error that the server tells of, without the details: these may quote what is in a row."""
    error = error_from_result(result, encoding="utf-8")
    error.args = (error.diag.message_primary or "no details",)
    return error


class _Readiness:
    """Waits for a descriptor. Windows has no poll."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._poll: Any = None
        if hasattr(select, "poll"):
            self._poll = select.poll()
            self._poll.register(descriptor, select.POLLIN)

    def is_readable(self) -> bool:
        """Tell whether something came in."""
        return self._wait(0, writing=False)[0]

    def wait(self, until: float, *, writing: bool = False) -> bool:
        """Wait until something came in, or may be written; return whether something came in."""
        readable, writable = self._wait(max(until - time.monotonic(), 0), writing=writing)
        if not (readable or writable):
            raise OverdueError
        return readable

    def _wait(self, timeout: float, *, writing: bool) -> tuple[bool, bool]:
        if self._poll is None:
            found = select.select([self._descriptor], [self._descriptor] if writing else [], [], timeout)
            return bool(found[0]), bool(found[1])
        if writing:
            self._poll.modify(self._descriptor, select.POLLIN | select.POLLOUT)
        found = self._poll.poll(timeout * 1000)
        if writing:
            self._poll.modify(self._descriptor, select.POLLIN)
        events = found[0][1] if found else 0
        return bool(events & ~select.POLLOUT), bool(events & select.POLLOUT)
