"""How values travel to the server: each as the type says that the statement gives it, `$1::bigint` or `$2::text[]`.

Psycopg picks a type by the value, so that one statement would be prepared once for small integers and once more for
larger ones, and it looks at every item of a list by itself. Here the statement decides, once.
"""

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from typing import Any

from standfast.errors import ValueNotStoredError

Dumped = bytes | None
_PARAMETER = re.compile(r"\$(\d+)(?:::\"?([a-z0-9_]+(?: precision)?)\"?(\[\])?)?")
_TEXT, _BINARY = 0, 1


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A statement as the server reads it: its name where it is prepared, and how its parameters are written.

    The name is made of the text. A pooler may lend one session to several processes, and there no name may mean one
    statement to one of them and another to the next.
    """

    name: bytes
    sql: bytes
    dumpers: tuple[Callable[[Any], bytes], ...]
    formats: tuple[int, ...]

    def dump(self, params: Sequence[Any]) -> list[Dumped]:
        """Return the parameters as bytes. Raises ValueNotStoredError for one that its type cannot hold."""
        if len(params) != len(self.dumpers):
            raise ValueError(f"{len(self.dumpers)} parameters are needed, {len(params)} are given: {self.sql!r}")
        try:
            return [
                None if value is None else dump(value) for value, dump in zip(params, self.dumpers, strict=True)
            ]
        except UnicodeEncodeError as error:
            raise ValueNotStoredError(
                f"PostgreSQL cannot store a value of this call ({error.reason} at position {error.start})"
            ) from error
        except ValueError as error:
            raise ValueNotStoredError("PostgreSQL cannot store a value of this call (no uuid)") from error


@cache
def prepared(sql: str) -> Prepared:
    """Return how a statement is sent."""
    types: dict[int, tuple[str, bool]] = {}
    highest = 0
    for number, name, many in _PARAMETER.findall(sql):
        highest = max(highest, int(number))
        if name:
            types.setdefault(int(number), (name, bool(many)))
    missing = [number for number in range(1, highest + 1) if number not in types]
    if missing:
        raise ValueError(f"the type of parameter ${missing[0]} is said nowhere, as in ${missing[0]}::bigint: {sql}")
    ways = [_way(*types[number]) for number in range(1, highest + 1)]
    return Prepared(
        name=b"standfast_" + blake2b(sql.encode(), digest_size=16).hexdigest().encode(),
        sql=sql.encode(),
        dumpers=tuple(dump for dump, _ in ways),
        formats=tuple(format_ for _, format_ in ways),
    )


def _way(type_: str, many: bool) -> tuple[Callable[[Any], bytes], int]:
    if many and type_ in _BINARY_ARRAYS:
        return _BINARY_ARRAYS[type_], _BINARY
    if many:
        return _text_array(_BOOLEAN if type_ in {"boolean", "bool"} else str), _TEXT
    if type_ == "text":
        return str.encode, _BINARY
    if type_ == "bytea":
        return bytes, _BINARY
    if type_ in {"boolean", "bool"}:
        return lambda value: b"t" if value else b"f", _TEXT
    return lambda value: str(value).encode(), _TEXT


_BOOLEAN: Callable[[Any], str] = {True: "t", False: "f"}.__getitem__


def _text_array(word: Callable[[Any], str]) -> Callable[[Sequence[Any]], bytes]:
    """Return what writes numbers and booleans: words that need no quotes."""

    def dump(values: Sequence[Any]) -> bytes:
        if None in values:
            return f"{{{','.join('NULL' if value is None else word(value) for value in values)}}}".encode()
        return f"{{{','.join(map(word, values))}}}".encode()

    return dump


_HEADER = struct.Struct("!iiiii")
_EMPTY = struct.Struct("!iii")
_length = struct.Struct("!i").pack
_NULL = _length(-1)
_UUID_BYTES = 16


def _binary_array(oid: int, encode: Callable[[Sequence[Any]], Sequence[bytes]]) -> Callable[[Sequence[Any]], bytes]:
    """Return what writes texts, bytes and uuids: no quotes to add and take away, and bytes stay what they are."""

    def dump(values: Sequence[Any]) -> bytes:
        if not values:
            return _EMPTY.pack(0, 0, oid)
        if None in values:
            return _HEADER.pack(1, 1, oid, len(values), 1) + b"".join(map(item_or_null, values))
        items = [_length(len(item)) + item for item in encode(values)]
        return _HEADER.pack(1, 0, oid, len(values), 1) + b"".join(items)

    def item_or_null(value: Any) -> bytes:
        if value is None:
            return _NULL
        [item] = encode([value])
        return _length(len(item)) + item

    return dump


def _texts(values: Sequence[str]) -> Sequence[bytes]:
    return [value.encode() for value in values]


def _bytes(values: Sequence[bytes]) -> Sequence[bytes]:
    return [bytes(value) for value in values]


def _uuids(values: Sequence[str]) -> Sequence[bytes]:
    # The server reads these in a fraction of the time that it takes for their texts.
    numbers = list(map(bytes.fromhex, [value.replace("-", "") for value in values]))
    if {*map(len, numbers)} != {_UUID_BYTES}:
        raise ValueError("an item is too long or too short")
    return numbers


_BINARY_ARRAYS = {
    "text": _binary_array(25, _texts),
    "bytea": _binary_array(17, _bytes),
    "uuid": _binary_array(2950, _uuids),
}
