"""Jobs in Redis or Valkey, for fleets that want speed above all."""

from typing import TYPE_CHECKING, NoReturn

from standfast.errors import ConfigurationError
from standfast.model.clock import Clock
from standfast.model.configuration import Settings
from standfast.stores.backend import Backend
from standfast.stores.redis.url import parse_address, public_name
from standfast.stores.url import moved_clock, require

if TYPE_CHECKING:
    from standfast.stores.doctor import Examination


# The door of the Redis store.


class RedisKind:
    """For redis://host:6379/0 and the like of it."""

    def check(self, url: str) -> None:
        """Refuse a URL that names no server, and any without the driver."""
        parse_address(url)
        require("redis", "redis")

    def public_name(self, url: str) -> str:
        """Return the server and the number of the database."""
        return public_name(url)

    def absolute(self, url: str) -> str:
        """Return the URL: it reads the same from everywhere."""
        return url

    def open(self, settings: Settings, clock: Clock) -> Backend:
        """Return the store on that server."""
        from standfast.stores.redis.store import RedisBackend  # noqa: PLC0415 - only who uses it loads it

        return RedisBackend(
            settings.url, clock=moved_clock(clock), namespace=settings.namespace, timeout=settings.store_timeout
        )

    def refuse_missing(self, settings: Settings) -> None:
        """Refuse a database or namespace that nobody has used."""
        from standfast.stores.redis.doctor import refuse_missing_keys  # noqa: PLC0415 - only who uses it loads it

        refuse_missing_keys(settings.url, settings.namespace, settings.store_timeout)

    def examine(self, settings: Settings, clock: Clock, *, deep: bool) -> "Examination":
        """Look at the server."""
        from standfast.stores.redis.doctor import examine_redis  # noqa: PLC0415 - only who uses it loads it

        return examine_redis(settings.url, settings.namespace, moved_clock(clock), deep=deep)

    def files_beside(self, url: str) -> None:
        """Return none: the server may be far away."""

    def migrator(self, settings: Settings) -> None:
        """Return nothing: there are no tables."""

    def copies(self, settings: Settings) -> NoReturn:  # noqa: ARG002 - the port's shape
        """Refuse: the server has tools for that."""
        raise ConfigurationError(
            "`standfast backup` and `standfast restore` are for SQLite files: back up the RDB file (BGSAVE) or the"
            " append-only files (AOF) of a Redis server"
        )


KIND = RedisKind()
