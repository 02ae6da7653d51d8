"""Which errors are the same: all that differs from one time to the next is taken out of their texts. Pure."""

import re
from functools import lru_cache
from hashlib import blake2b

_LONGEST = 500
"""Characters of a shape; what makes errors differ is at their beginning."""

_KNOWN = 4096
"""So many errors are known again: who looks at dead jobs looks at the same ones every few seconds."""

_DIFFERS = re.compile(
    r"""
    (?P<quoted>'[^'\n]*'|"[^"\n]*"|`[^`\n]*`)
    | (?P<url>\b[a-z][a-z0-9+.-]*://\S+)
    | (?P<path>(?<![\w.])(?:[A-Za-z]:)?(?:[\\/][\w.@+-]+)+[\\/]?)
    | (?P<id>\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b)
    | (?P<hex>\b0x[0-9a-f]+\b|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{6,}\b)
    | (?P<number>\d+(?:[.,:]\d+)*)
    """,
    re.VERBOSE | re.IGNORECASE,
)


def shape_of(error: str) -> str:
    """Return what an error has in common with others like it: `TypeName: no such file …`."""
    kind, colon, message = error.partition(":")
    told = f"{kind}{colon}{_DIFFERS.sub(_stand_in, message)}" if colon else _DIFFERS.sub(_stand_in, error)
    return " ".join(told.split())[:_LONGEST]


@lru_cache(maxsize=_KNOWN)
def fingerprint(error: str | None) -> str | None:
    """Return a short name for all errors of this shape, the same on every machine; None without an error."""
    return None if not error else blake2b(shape_of(error).encode(errors="replace"), digest_size=6).hexdigest()


def _stand_in(found: re.Match[str]) -> str:
    return f"<{found.lastgroup}>"
