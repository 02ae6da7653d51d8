"""Which way of keeping jobs in Redis this is. Releases with different ones must not work on the same jobs."""

from holdfast.errors import SchemaError
from holdfast.store.redis.address import Address

FORMAT = 1
"""Changed whenever keys or values come to mean something else than before; not for what older ones may ignore."""


def refuse_other_format(found: bytes | None, address: Address) -> None:
    """Raise SchemaError if the jobs there are kept in another way. Where no worker ever was, nothing is known."""
    if found is not None and found != str(FORMAT).encode():
        raise SchemaError(
            f"redis {address.name} holds jobs in format {found.decode(errors='replace')}, and this release knows"
            f" {FORMAT}: use the same release of holdfast everywhere, or another database or namespace"
        )
