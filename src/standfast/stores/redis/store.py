"""The Redis store: its verbs in one class, and the open store."""

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from standfast.errors import ConfigurationError
from standfast.model.clock import Clock
from standfast.stores.backend import Backend
from standfast.stores.redis.claim import ClaimVerbs
from standfast.stores.redis.engine import Engine
from standfast.stores.redis.enqueue import ClientVerbs, EnqueueVerbs
from standfast.stores.redis.finish import FinishVerbs
from standfast.stores.redis.notify import RedisBell
from standfast.stores.redis.records import RecordVerbs
from standfast.stores.redis.scripts import load_scripts
from standfast.stores.redis.supervise import BurialVerbs, SupervisionVerbs
from standfast.stores.redis.url import parse_address
from standfast.stores.redis.views import ViewVerbs
from standfast.stores.rows import to_micros
from standfast.stores.values import LeaseClock
from standfast.stores.verb import Verb


class RedisStore(
    EnqueueVerbs, ClientVerbs, ViewVerbs, RecordVerbs, ClaimVerbs, FinishVerbs, SupervisionVerbs, BurialVerbs
):
    """Every verb of `Store`, as scripts for Redis."""

    lease_clock = LeaseClock.SERVER


T = TypeVar("T")


class RedisBackend(Backend):
    """Jobs on a Redis server, shared by all who reach it. A clock that is given overrides the server's.

    The first verb connects.
    """

    _engine: Callable[[], Engine]

    def __init__(
        self, url: str, *, clock: Clock | None = None, namespace: str | None = None, timeout: float = 10.0
    ) -> None:
        self._address = parse_address(url)
        super().__init__(f"the store on Redis {self._address.name}")
        self._prefix = key_prefix(namespace)
        self._timeout = timeout
        self._given_now = None if clock is None else lambda: str(to_micros(clock.now()))
        self.verbs: RedisStore = RedisStore()
        self.bell = RedisBell(self._engine)

    def _open(self) -> Engine:
        return Engine(self._address, self._prefix, load_scripts(), self._timeout, self._given_now)

    def run_in(self, verb: Verb[T], connection: Any) -> T:  # noqa: ARG002 - the shape of every store
        """Refuse: Redis takes part in no transaction of another database."""
        raise _no_part(
            connection,
            "whose rollback would not reach the jobs: enqueue after the commit, or keep an outbox (write what to"
            " enqueue to a table of yours in that transaction, and enqueue from there)",
        )

    async def arun_in(self, verb: Verb[T], connection: Any) -> T:
        """Refuse as `run_in` does."""
        return self.run_in(verb, connection)

    def join(self, connection: Any) -> NoReturn:
        """Refuse: Redis takes part in no transaction of another database."""
        raise _no_part(
            connection,
            "so that it cannot complete the job with your rows, nor a step: commit them yourself, in a way that"
            " does no harm twice, as with a unique row for ctx.idempotency_key, and return from the handler or"
            " the step",
        )

    ajoin = join


def _no_part(connection: Any, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"a Redis store cannot take part in the transaction of your {type(connection).__name__}, {why}; or use a"
        " postgresql:// store there"
    )


def key_prefix(namespace: str | None) -> str:
    """Return what all keys of a namespace begin with: a hash tag, so that a cluster keeps them together."""
    return f"{{standfast:{namespace}}}" if namespace else "{standfast}"
