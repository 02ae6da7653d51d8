"""The tail of a command's help."""


def examples(*lines: str) -> str:
    """Return an epilog of examples that click leaves as they are."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
