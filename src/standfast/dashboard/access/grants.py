"""Grants: names of operations that somebody may use besides those of their role."""

from collections.abc import Iterable

from standfast.spelling import hint


def unknown_grant(grants: Iterable[str]) -> str | None:
    """Return what is wrong with the first grant that names no operation, None where all do."""
    from standfast.dashboard.operations import BY_NAME  # noqa: PLC0415 - all of the dashboard, which few need here

    unknown = next((grant for grant in sorted(grants) if grant not in BY_NAME), None)
    worth_granting = [name for name, operation in BY_NAME.items() if operation.changes]
    return None if unknown is None else f"there is no operation {unknown!r}; {hint(unknown, worth_granting)}"
