"""Which servers, and which way of keeping jobs in them, this release works with."""

from collections.abc import Mapping

from standfast.errors import SchemaError, StoreError
from standfast.store.redis.address import Address

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
