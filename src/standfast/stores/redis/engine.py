"""The engine of Redis: calls on their way, tried again, and refused across releases.

Which servers, and which way of keeping jobs in them, this release works with.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NoReturn, TypeVar

from redis.exceptions import NoPermissionError, NoScriptError, RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from standfast.errors import SchemaError, StoreError
from standfast.stores.redis.connect import (
    ClosedError,
    NotSentError,
    Opened,
    Pool,
    Wire,
    hang_up,
    locator_of,
    open_connection,
)
from standfast.stores.redis.pipe import CAN_WATCH, Loops
from standfast.stores.redis.translate import Translated, code_of, is_cut, is_left_open, leave_open
from standfast.stores.redis.url import Address, Endpoint
from standfast.stores.refusals import in_doubt
from standfast.stores.threads import Handover, Threads, in_a_thread
from standfast.stores.verb import Access, Script, Statement, Verb, afollow, follow

OLDEST = (6, 2)
"""The oldest Redis that has all that the scripts use."""

FORMAT = 2
"""Changed whenever keys or values come to mean something else than before; not for what older ones may ignore.

2: the lane of a suspect, and what its life says of it, name its group. Before, it was 1 for all: they ran alone."""

READABLE = frozenset({b"1", b"2"})
"""The formats that this release works with. It raises an older one when its first worker registers."""


def parse_info(reply: bytes) -> dict[str, str]:
    """Return the reply to INFO as names and values."""
    lines = reply.decode(errors="replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line and not line.startswith("#"))


def refuse_old(info: Mapping[str, str], address: Address) -> None:
    """Raise StoreError for a server, as its INFO tells, that lacks what the scripts use."""
    version = info.get("redis_version", "")
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers and numbers < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise StoreError(
            f"Redis {address.name} has version {version}: upgrade it to {oldest} or newer, or to Valkey"
        )


def refuse_other_format(found: bytes | None, address: Address) -> None:
    """Raise SchemaError if the jobs there are kept in another way. Where no worker ever was, nothing is known."""
    if found is not None and found not in READABLE:
        raise SchemaError(
            f"redis {address.name} holds jobs in format {found.decode(errors='replace')}, and this release knows"
            f" {FORMAT}: use the same release of standfast everywhere, or another database or namespace"
        )


# All that one process has open: connections for jobs and for beats, of threads and of event loops.
#
# Beats have connections of their own, so that they wait for nobody. When a connection breaks, its call is repeated
# once, on a fresh one and in the time that is left, if that changes nothing more: if the call only reads, cannot have
# been carried out, or belongs to a verb that may be repeated. Otherwise its error says that it may be stored.
#
# Async callers share connections that their event loop watches. With TLS, whose sockets do not tell what they hold,
# they have threads instead.

T = TypeVar("T")

_CONNECTIONS = {Access.READ: 16, Access.WRITE: 16, Access.BEAT: 2}
_THREADS = {Access.READ: 2, Access.WRITE: 4, Access.BEAT: 1}

_LISTEN = "listen"

_ELSEWHERE = frozenset({"MOVED", "READONLY", "MASTERDOWN", "CLUSTERDOWN"})
"""The server that holds the jobs is not, or no longer, at the other end of this connection."""

_NOT_DONE = frozenset({"MOVED", "READONLY"})
"""Nothing happened, and another server may do it."""

_MOVE_PAUSE = 0.1
"""Seconds between two tries while a cluster moves the slot of the keys."""

_LEAST = 0.001
"""Seconds that must be left for another try."""


class Engine:
    """The open connections of one process. Making one opens nothing; the first verb does."""

    def __init__(
        self,
        address: Address,
        prefix: str,
        scripts: Mapping[str, str],
        timeout: float,
        given_now: Callable[[], str] | None,
    ) -> None:
        self._address = address
        self._prefix = prefix
        self._timeout = timeout
        self._given_now = given_now
        self._texts = {name: text.encode() for name, text in scripts.items()}
        self._digests = {name: hashlib.sha1(text).hexdigest() for name, text in self._texts.items()}  # noqa: S324
        self._locator = locator_of(address, prefix, timeout)
        self._pools = {access: Pool(address, size, timeout) for access, size in _CONNECTIONS.items()}
        self._translated = Translated(address, timeout)
        self._threads = {
            access: Threads(size, f"standfast-redis-{access.value}", _closed) for access, size in _THREADS.items()
        }
        self._loops = Loops(self._threads, partial(self._open, self._check_once), timeout)
        self._on_loops = CAN_WATCH and not address.tls
        self._openers = Threads(1, "standfast-redis-bell", _closed)
        self._losses = 0
        self._is_checked = False

    def run(self, verb: Verb[T]) -> T:
        """Run the verb in the caller's own thread."""
        try:
            return follow(verb.steps, partial(self._call, verb.access, verb.once))
        except Exception as error:
            self._translated.reword(error)
            raise

    async def arun(self, verb: Verb[T]) -> T:
        """Run the verb without blocking the event loop."""
        if not self._on_loops:
            with self._translated:
                return await in_a_thread(self._threads[verb.access], partial(self.run, verb))
        with self._translated:
            return await afollow(verb.steps, partial(self._acall, verb.access, verb.once))

    def call(self, script: Script) -> Any:
        """Run one script that is no verb."""
        with self._translated:
            return self._call(Access.WRITE, False, script)

    def call_soon(self, script: Script) -> None:
        """Run one script in a thread, whatever comes of it: an event loop does not wait."""
        with self._translated:
            self._threads[Access.WRITE].do(partial(self._call_quietly, script))

    def _call_quietly(self, script: Script) -> None:
        with suppress(Exception):
            self.call(script)

    def ask_epoch(self, connection: Wire, *args: Any) -> None:
        """Send the script of a listener without waiting for the reply."""
        connection.send(("EVALSHA", self._digests[_LISTEN], "1", self._prefix, "", *args))

    def ask_ear(self, connection: Wire, listener: str, seconds: int) -> None:
        """Wait on the server for what rings in a listener's ear, without waiting here for the reply."""
        connection.send(("BLPOP", f"{self._prefix}:ear:{listener}", seconds))

    async def open_ear(self, handover: Handover) -> Opened:
        """Open a connection for a listener, in a thread. Who asks for it closes it."""
        return await in_a_thread(self._openers, partial(self._open, self._load_listen), hang_up, handover)

    def lose_if_gone(self, place: Endpoint, error: RedisError, losses: int | None = None) -> None:
        """Look for the server anew if this error means that it is no longer at this place.

        `losses` is how often it had been lost when the connection was taken: another call may have noted this loss.
        """
        if code_of(error) in _ELSEWHERE or is_cut(error):
            self._locator.lose(place)
            if losses is None or losses >= self._losses:
                self._losses += 1
                for pool in self._pools.values():
                    pool.clear()

    def close(self) -> None:
        """Wait for what runs, then let go of threads and connections."""
        self._loops.close()
        for threads in (self._openers, *self._threads.values()):
            threads.close()
        for pool in self._pools.values():
            pool.close()

    def _open(self, prepare: Callable[[Wire], None]) -> Opened:
        losses, place = self._losses, self._locator.find()
        try:
            connection = open_connection(self._address, place, self._timeout)
            try:
                prepare(connection)
            except BaseException:
                connection.close()
                raise
        except RedisError as error:
            self.lose_if_gone(place, error, losses)
            raise
        return connection, place, losses

    def _load_listen(self, connection: Wire) -> None:
        connection.ask("SCRIPT", "LOAD", self._texts[_LISTEN])

    def _check_once(self, connection: Wire) -> None:
        if not self._is_checked:
            self._check_server(connection)

    def _call(self, access: Access, once: bool, statement: Statement) -> Any:
        script = statement if isinstance(statement, Script) else _refuse(statement)
        give_up_at = time.monotonic() + self._timeout
        has_waited = False
        while True:
            try:
                return self._try(access, script, give_up_at, fresh=has_waited)
            except RedisError as error:
                left = give_up_at - time.monotonic()
                if not self._is_moving(error, left):
                    if not self._is_to_repeat(once, error, left):
                        raise
                    with _still_open(error):
                        return self._try(access, script, give_up_at, fresh=True)
            time.sleep(_MOVE_PAUSE)
            has_waited = True

    def _is_moving(self, error: RedisError, left: float) -> bool:
        """Tell whether a later try may find the slot of the keys at its new node; this one has done nothing."""
        return left > _MOVE_PAUSE and self._locator.may_move and code_of(error) == "ASK"

    def _is_to_repeat(self, once: bool, error: RedisError, left: float) -> bool:
        code = code_of(error)
        if left < _LEAST:
            return False
        if code:
            return self._locator.may_move and code in _NOT_DONE
        return is_cut(error) and not (once and is_left_open(error))

    def _try(self, access: Access, script: Script, give_up_at: float, *, fresh: bool = False) -> Any:
        losses, pool = self._losses, self._pools[access]
        place = self._locator.found or self._locator.find()
        try:
            line = pool.take(place, give_up_at, fresh=fresh)
            try:
                if not self._is_checked:
                    self._check_server(line.wire)
                reply = self._evaluate(access, line.wire, script)
            except BaseException:
                pool.drop(line)
                raise
        except RedisError as error:
            self.lose_if_gone(place, error, losses)
            raise
        pool.give_back(line)
        return reply

    def _evaluate(self, access: Access, connection: Wire, script: Script, *, is_loaded: bool = False) -> Any:
        command = self._command(script)
        connection.send(command)
        try:
            return connection.read()
        except NoScriptError:
            if is_loaded:
                raise
        except RedisError as error:
            _leave_open(access, command, error)
            raise
        connection.ask("SCRIPT", "LOAD", self._texts[script.name])
        return self._evaluate(access, connection, script, is_loaded=True)

    async def _acall(self, access: Access, once: bool, statement: Statement) -> Any:
        script = statement if isinstance(statement, Script) else _refuse(statement)
        now = asyncio.get_running_loop().time
        give_up_at = now() + self._timeout
        has_waited = False
        while True:
            try:
                return await self._atry(access, script, give_up_at, hurried=has_waited)
            except RedisError as error:
                left = give_up_at - now()
                if not self._is_moving(error, left):
                    if not self._is_to_repeat(once, error, left):
                        raise
                    with _still_open(error):
                        return await self._atry(access, script, give_up_at, hurried=True)
            await asyncio.sleep(_MOVE_PAUSE)
            has_waited = True

    async def _atry(self, access: Access, script: Script, give_up_at: float, *, hurried: bool = False) -> Any:
        command = self._command(script)
        try:
            return await self._ask(access, command, give_up_at, hurried=hurried)
        except NoScriptError:
            load = ("SCRIPT", "LOAD", self._texts[script.name])
            await self._ask(access, load, give_up_at, hurried=hurried)
        return await self._ask(access, command, give_up_at, hurried=hurried)

    async def _ask(self, access: Access, words: tuple[Any, ...], give_up_at: float, *, hurried: bool) -> Any:
        """Ask. If a connection has to be opened, or the call is `hurried`, give up at that time."""
        pipes = self._loops.pipes(access)
        pipe, limit = pipes.ready(self._losses), None
        try:
            if pipe is not None and not hurried:
                return await pipe.ask(words)
            async with asyncio.timeout_at(give_up_at) as limit:
                pipe = pipe or await pipes.get(self._losses)
                return await pipe.ask(words)
        except RedisError as error:
            if pipe is not None:
                _leave_open(access, words, error)
                self.lose_if_gone(pipe.place, error, pipe.losses)
            raise
        except TimeoutError as error:
            if limit is None or not limit.expired():  # of a signal handler
                raise
            late = RedisTimeoutError("the server does not answer")
            if pipe is not None:
                _leave_open(access, words, late)
            raise late from error

    def _command(self, script: Script) -> tuple[Any, ...]:
        now = "" if self._given_now is None else self._given_now()
        return ("EVALSHA", self._digests[script.name], "1", self._prefix, now, *script.args)

    def _check_server(self, connection: Wire) -> None:
        with suppress(NoPermissionError):  # not everybody may ask: then a script will say what is missing
            refuse_old(parse_info(connection.ask("INFO", "server")), self._address)
        refuse_other_format(connection.ask("GET", f"{self._prefix}:format"), self._address)
        self._is_checked = True


def _leave_open(access: Access, words: tuple[Any, ...], error: RedisError) -> None:
    """Mark an error after which the server may have run a script that writes. Loading a script changes nothing."""
    may_be_run = words[0] == "EVALSHA" and not isinstance(error, NotSentError)
    if access is not Access.READ and may_be_run and is_cut(error):
        leave_open(error)


@contextmanager
def _still_open(before: RedisError) -> Iterator[None]:
    """If the first try may have been done, mark the error of the second one, too."""
    try:
        yield
    except (RedisError, OSError) as error:
        if is_left_open(before):
            leave_open(error)
        raise
    except StoreError as error:  # the second try never reached a server
        raise (in_doubt(error) if is_left_open(before) else error) from error.__cause__


def _closed() -> Exception:
    return ClosedError("the store was closed")


def _refuse(statement: Statement) -> NoReturn:
    raise TypeError(f"Redis cannot run {type(statement).__name__} statements: the verb is of another store")
