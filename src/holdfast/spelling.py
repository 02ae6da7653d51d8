"""Options by a name that does not exist: refused with the name that may have been meant."""

import inspect
from collections.abc import Callable, Collection, Iterable
from functools import wraps
from typing import ParamSpec, TypeVar

from holdfast.errors import ConfigurationError

P = ParamSpec("P")
R = TypeVar("R")


def refuse_unknown(where: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise ConfigurationError for the first name that is not known."""
    for name in given:
        if name not in known:
            meant = nearest(name, known)
            hint = f"did you mean {meant}?" if meant else f"there are: {', '.join(known)}"
            raise ConfigurationError(f"{where} has no option {name!r}; {hint}")


def nearest(name: str, known: Collection[str]) -> str | None:
    """Return the known name that is most like this one, if any is."""
    import difflib  # noqa: PLC0415 - only for those who mistyped

    return next(iter(difflib.get_close_matches(name.lower(), list(known), 1, cutoff=0.5)), None)


def options_of(where: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a method with keyword options refuse those that it does not have. Type checkers see it as it is."""

    def checked(method: Callable[P, R]) -> Callable[P, R]:
        known = [name for name in inspect.signature(method).parameters if name != "self"]

        @wraps(method)
        def call(*args: P.args, **options: P.kwargs) -> R:
            refuse_unknown(where, options, known)
            return method(*args, **options)

        return call

    return checked
