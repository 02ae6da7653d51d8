"""Names that do not exist: refused with the name that may have been meant."""

import inspect
from collections.abc import Callable, Collection, Iterable
from functools import wraps
from typing import ParamSpec, TypeVar

from holdfast.errors import ConfigurationError

P = ParamSpec("P")
R = TypeVar("R")

_ALIKE = 0.5
"""From which likeness on, of 1, a name may be a slip of another."""


def refuse_unknown(where: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise ConfigurationError for the first name that is not known."""
    for name in given:
        if name not in known:
            raise ConfigurationError(f"{where} has no option {name!r}; {hint(name, known)}")


def hint(name: str, known: Collection[str], written: Callable[[str], str] = str) -> str:
    """Return which known name may have been meant, else which there are, as people write them."""
    meant = nearest(name, known)
    return f"there are: {', '.join(map(written, known))}" if meant is None else f"did you mean {written(meant)}?"


def nearest(name: str, known: Collection[str], alike: float = _ALIKE) -> str | None:
    """Return the known name that may have been meant."""
    import difflib  # noqa: PLC0415 - only for those who mistyped

    return next(iter(difflib.get_close_matches(name.lower(), known, 1, cutoff=alike)), None)


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
