"""All that one process has open: connections for jobs and for beats, and threads for async callers.

Beats have connections and a thread of their own, so that they wait for nobody. A call that got no reply is not
repeated here, as it may have happened: the verbs may be repeated, and who calls decides.
"""

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from redis.exceptions import NoPermissionError, NoScriptError, RedisError

from holdfast.store.redis.address import Address, Place
from holdfast.store.redis.connect import Wire, ask, open_connection, send
from holdfast.store.redis.info import parse_info
from holdfast.store.redis.layout import refuse_other_format
from holdfast.store.redis.pool import Pool
from holdfast.store.redis.steps import run_steps
from holdfast.store.redis.translate import Translated, code_of, is_cut, refuse_old
from holdfast.store.redis.whereabouts import whereabouts
from holdfast.store.verb import Access, Script, Verb

T = TypeVar("T")

_CONNECTIONS = {Access.READ: 16, Access.WRITE: 16, Access.BEAT: 2}
_THREADS = {Access.READ: 2, Access.WRITE: 4, Access.BEAT: 1}

_LISTEN = "listen"

_ELSEWHERE = frozenset({"MOVED", "READONLY", "MASTERDOWN", "CLUSTERDOWN"})
"""The server that holds the jobs is not, or no longer, at the other end of this connection."""

_NOT_DONE = frozenset({"MOVED", "READONLY"})
"""Nothing happened, and another server may do it."""


class Engine:
    """The open connections of one process. Making one opens nothing; the first verb does."""

    def __init__(
        self,
        address: Address,
        prefix: str,
        scripts: Mapping[str, str],
        timeout: float,
        given_now: Callable[[], str],
    ) -> None:
        self._address = address
        self._prefix = prefix
        self._timeout = timeout
        self._given_now = given_now
        self._texts = {name: text.encode() for name, text in scripts.items()}
        self._digests = {name: hashlib.sha1(text).hexdigest() for name, text in self._texts.items()}  # noqa: S324
        self._where = whereabouts(address, prefix, timeout)
        self._pools = {access: Pool(address, size, timeout) for access, size in _CONNECTIONS.items()}
        self._translated = Translated(address, timeout)
        self._threads = {
            access: ThreadPoolExecutor(size, thread_name_prefix=f"holdfast-redis-{access.value}")
            for access, size in _THREADS.items()
        }
        self._openers = ThreadPoolExecutor(1, thread_name_prefix="holdfast-redis-bell")
        self._knows_version = False

    def run(self, verb: Verb[T]) -> T:
        """Run the verb in the caller's own thread."""
        with self._translated:
            return run_steps(partial(self._call, self._pools[verb.access]), verb.steps)

    async def arun(self, verb: Verb[T]) -> T:
        """Run the verb in a thread of its lane."""
        return await asyncio.get_running_loop().run_in_executor(self._threads[verb.access], self.run, verb)

    def call(self, script: Script) -> Any:
        """Run one script that is no verb."""
        with self._translated:
            return self._call(self._pools[Access.WRITE], script)

    def ask_epoch(self, connection: Wire, *args: Any) -> None:
        """Send the script of a listener without waiting for the reply."""
        send(connection, "EVALSHA", self._digests[_LISTEN], "1", self._prefix, "", *args)

    def ask_ear(self, connection: Wire, listener: str, seconds: int) -> None:
        """Wait on the server for what rings in a listener's ear, without waiting here for the reply."""
        send(connection, "BLPOP", f"{self._prefix}:ear:{listener}", seconds)

    def open_ear(self) -> "Future[tuple[Place, Wire]]":
        """Open a connection for a listener, in a thread. Who asks for it closes it."""
        return self._openers.submit(self._open_ear)

    def lose_if_gone(self, place: Place, error: RedisError) -> None:
        """Look for the server anew if this error means that it is no longer at this place."""
        if code_of(error) in _ELSEWHERE or is_cut(error):
            self._where.lose(place)
            for pool in self._pools.values():
                pool.clear()

    def close(self) -> None:
        """Wait for what runs, then let go of threads and connections."""
        for thread in (self._openers, *self._threads.values()):
            thread.shutdown(wait=True)
        for pool in self._pools.values():
            pool.clear()

    def _open_ear(self) -> tuple[Place, Wire]:
        place = self._where.find()
        try:
            connection = open_connection(self._address, place, self._timeout)
            try:
                ask(connection, "SCRIPT", "LOAD", self._texts[_LISTEN])
            except BaseException:
                connection.disconnect()
                raise
        except RedisError as error:
            self.lose_if_gone(place, error)
            raise
        return place, connection

    def _call(self, pool: Pool, script: Script) -> Any:
        try:
            return self._try(pool, script)
        except RedisError as error:
            if not self._where.may_move or code_of(error) not in _NOT_DONE:
                raise
        return self._try(pool, script)

    def _try(self, pool: Pool, script: Script) -> Any:
        place = self._where.find()
        try:
            lent = pool.take(place)
            try:
                self._learn_version(lent.wire)
                reply = self._evaluate(lent.wire, script)
            except BaseException:
                pool.drop(lent)
                raise
        except RedisError as error:
            self.lose_if_gone(place, error)
            raise
        pool.give_back(lent)
        return reply

    def _evaluate(self, connection: Wire, script: Script) -> Any:
        digest = self._digests[script.name]
        send(connection, "EVALSHA", digest, "1", self._prefix, self._given_now(), *script.args)
        try:
            return connection.read_response()
        except NoScriptError:
            ask(connection, "SCRIPT", "LOAD", self._texts[script.name])
        return ask(connection, "EVALSHA", digest, "1", self._prefix, self._given_now(), *script.args)

    def _learn_version(self, connection: Wire) -> None:
        if self._knows_version:
            return
        with suppress(NoPermissionError):  # not everybody may ask: then a script will say what is missing
            refuse_old(parse_info(ask(connection, "INFO", "server")), self._address)
        refuse_other_format(ask(connection, "GET", f"{self._prefix}:format"), self._address)
        self._knows_version = True
