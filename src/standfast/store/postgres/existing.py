"""Looking must not make: a database without our tables is refused, where a worker or an app would make them."""

import time
from contextlib import closing

from standfast.errors import StoreUnavailableError
from standfast.store.postgres.address import parse_address
from standfast.store.postgres.connect import open_wire
from standfast.store.postgres.migrate import look_at
from standfast.store.postgres.translate import translated


def refuse_missing_schema(url: str, namespace: str | None, timeout: float) -> None:
    """Raise StoreUnavailableError unless the tables are there; whether they can be used is found out by opening."""
    address = parse_address(url, namespace)
    until = time.monotonic() + timeout
    with translated(address, timeout), closing(open_wire(address, timeout, until)) as wire:
        schema = look_at(wire, address.schema, until)
    if not schema.version:
        raise StoreUnavailableError(
            f"{address.name} holds no jobs of Standfast in schema {address.schema}; give the right store with --url"
            " and --namespace (it is made by `standfast migrate`, or when a job is first enqueued or a worker"
            " starts)"
        )
