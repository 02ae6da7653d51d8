"""How what a verb says is packed for a script."""

from typing import Any

import msgspec

from standfast.errors import ValueNotStoredError

_encode = msgspec.msgpack.Encoder().encode


def pack(value: Any) -> bytes:
    """Return a value as the MessagePack that scripts read. Bytes are not for it: the server's reader knows none."""
    try:
        return _encode(value)
    except (OverflowError, UnicodeEncodeError) as error:
        # Values that Python can hold and this form cannot: integers over 64 bits, lone surrogates.
        raise ValueNotStoredError(f"Redis cannot store a value of this call ({error})") from error
