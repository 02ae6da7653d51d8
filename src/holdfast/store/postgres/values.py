"""How values travel to the server: each as the type says that the statement gives it, `$1::bigint` or `$2::text[]`.

Psycopg picks a type by the value, so that one statement would be prepared once for small integers and once more for
larger ones, and it looks at every item of a list by itself. Here the statement decides, once.
"""

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any

from holdfast.errors import ValueNotStoredError

Dumped = bytes | None
_PARAMETER = re.compile(r"\$(\d+)(?:::\"?([a-z0-9_]+(?: precision)?)\"?(\[\])?)?")
_TEXT, _BINARY = 0, 1
_OIDS = {"text": 25, "bytea": 17}
_NUMBERS = count(1)


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A statement as the server reads it: its name where it is prepared, and how its parameters are written."""

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
        name=b"holdfast_%d" % next(_NUMBERS),
        sql=sql.encode(),
        dumpers=tuple(dump for dump, _ in ways),
        formats=tuple(format_ for _, format_ in ways),
    )


def _way(type_: str, many: bool) -> tuple[Callable[[Any], bytes], int]:
    if many and type_ in _OIDS:
        return _binary_array(_OIDS[type_], str.encode if type_ == "text" else bytes), _BINARY
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
    """Return what writes numbers, booleans and uuids: words that need no quotes."""

    def dump(values: Sequence[Any]) -> bytes:
        if None in values:
            return f"{{{','.join('NULL' if value is None else word(value) for value in values)}}}".encode()
        return f"{{{','.join(map(word, values))}}}".encode()

    return dump


_HEADER = struct.Struct("!iiiii")
_LENGTH = struct.Struct("!i")
_NULL = _LENGTH.pack(-1)
_EMPTY = struct.Struct("!iii")


def _binary_array(oid: int, encode: Callable[[Any], bytes]) -> Callable[[Sequence[Any]], bytes]:
    """Return what writes texts and bytes: no quotes to add and to take away, and bytes stay what they are."""

    def dump(values: Sequence[Any]) -> bytes:
        if not values:
            return _EMPTY.pack(0, 0, oid)
        pieces = [_HEADER.pack(1, 1 if None in values else 0, oid, len(values), 1)]
        for value in values:
            if value is None:
                pieces.append(_NULL)
                continue
            piece = encode(value)
            pieces += (_LENGTH.pack(len(piece)), piece)
        return b"".join(pieces)

    return dump
