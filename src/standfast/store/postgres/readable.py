"""Text that we write ourselves about what happened, made so that the server can keep it.

PostgreSQL's text holds no NUL, and no half of a surrogate pair. An error message or a traceback may have either,
and must not be lost for it: NUL becomes its picture, and half a pair its number.
"""

_NUL, _PICTURE = "\0", "\N{SYMBOL FOR NULL}"


def readable(text: str | None) -> str | None:
    """Return the text, with signs that can be kept in place of those that cannot."""
    if text is None:
        return None
    return text.replace(_NUL, _PICTURE).encode("utf-8", "backslashreplace").decode()
