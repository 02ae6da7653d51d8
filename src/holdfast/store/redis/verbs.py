"""What the verbs of this store share: how what they say is packed for a script."""

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.errors import ValueNotStoredError
from holdfast.store.verb import Script

_encode = msgspec.msgpack.Encoder().encode


class RedisVerbs:
    """Base of the groups of verbs."""


def pack(value: Any) -> bytes:
    """Return a value as the MessagePack that scripts read. Bytes are not for it: the server's reader knows none."""
    try:
        return _encode(value)
    except (OverflowError, UnicodeEncodeError) as error:
        # Values that Python can hold and this form cannot: integers over 64 bits, lone surrogates.
        raise not_stored(error) from error


def not_stored(error: Exception) -> ValueNotStoredError:
    """Return the error for a value that Python can hold and this store cannot."""
    return ValueNotStoredError(f"Redis cannot store a value of this call ({error})")


def script(name: str, *args: Sequence[Any]) -> Script:
    """Return the call of a script."""
    return Script(name, args)
