"""Looking must not mistake an empty place for a store: where nobody ever left anything is none."""

from contextlib import closing

from standfast.errors import StoreUnavailableError
from standfast.store.redis.address import parse_address
from standfast.store.redis.backend import key_prefix
from standfast.store.redis.connect import open_connection
from standfast.store.redis.locator import locator_of
from standfast.store.redis.translate import Translated
from standfast.store.redis.wire import Wire

_TRACES = ("arrivals", "hires", "paused")
"""Keys of which the first job or record, the first worker or a pause leaves one; base.lua says what they hold."""


def is_used(connection: Wire, namespace: str | None) -> bool:
    """Tell whether anybody ever enqueued, worked, scheduled or paused there."""
    prefix = key_prefix(namespace)
    return bool(connection.ask("EXISTS", *(f"{prefix}:{trace}" for trace in _TRACES)))


def where_said(namespace: str | None) -> str:
    """Return which part of a database is meant, for a message."""
    return f"in namespace {namespace}" if namespace else "outside of namespaces"


def refuse_missing_keys(url: str, namespace: str | None, timeout: float) -> None:
    """Raise StoreUnavailableError unless something is there."""
    address, prefix = parse_address(url), key_prefix(namespace)
    with Translated(address, timeout):
        place = locator_of(address, prefix, timeout).find()
        with closing(open_connection(address, place, timeout)) as connection:
            found = is_used(connection, namespace)
    if not found:
        raise StoreUnavailableError(
            f"Redis {address.name} holds no jobs of Standfast {where_said(namespace)}; give the right store with"
            " --url and --namespace (it is made when a job is first enqueued or a worker starts)"
        )
