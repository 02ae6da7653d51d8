"""How this store writes memos: scripts compare the stamp in front, and read no body."""

from standfast.core.memo import Memo

_DIGITS = 15
_STAMP = 2 * _DIGITS


def write_memo(body: bytes, fence: int = 0, number: int = 0) -> bytes:
    """Return what is stored of a memo; those of others, signals, come before all of the job's own."""
    return b"%0*d%0*d" % (_DIGITS, fence, _DIGITS, number) + body


def read_memo(name: bytes, text: bytes) -> Memo:
    """Return the memo that the hash of its job holds."""
    return Memo(name.decode(), text[_STAMP:])
