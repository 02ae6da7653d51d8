"""What a handler asks of a step, checked."""

import inspect
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple, get_type_hints

from standfast.codec import decode_result
from standfast.codec.types import form_of, stored_type
from standfast.core.retries import ONCE, Retries
from standfast.durable.here import StepHere
from standfast.errors import ConfigurationError, PayloadError, StepError
from standfast.policy.reading import as_seconds, is_finite, is_int
from standfast.spelling import hint

_LONGEST_NAME = 128

Log = logging.LoggerAdapter[logging.Logger]
"""The logger of the job, which keeps its secrets."""


class Options(NamedTuple):
    """What a step takes itself, and does not pass on to its function."""

    retry: Retries | int | None
    timeout: timedelta | float | None
    version: int
    tx: Any


@dataclass(frozen=True, slots=True)
class Plan:
    """One step: what it does, how often it is tried, and how long it may take."""

    name: str
    call: partial[Any]
    result_type: Any
    retries: Retries
    timeout: float | None
    version: int
    tx: Any
    log: Log

    def here(self) -> StepHere:
        """Return the step as it begins now."""
        return StepHere(self.name, self.timeout)

    def read(self, result: bytes) -> Any:
        """Return a stored result as what the function says that it returns."""
        try:
            return decode_result(result, self.result_type)
        except PayloadError as error:
            raise StepError(
                f"step {self.name!r} is done and its result is kept, but does not fit the function's return"
                f" annotation: {error.__cause__}; correct the annotation, and retry the job"
            ) from error


def plan_step(
    name: str,
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    options: Options,
    *,
    log: Log,
    blocking: bool,
) -> Plan:
    """Return a step, checked. Raises StepError that names what is wrong with it."""
    retry, timeout, version, tx = options
    if not (isinstance(name, str) and 1 <= len(name) <= _LONGEST_NAME and name.isprintable()):
        raise StepError(f"a step's name must be 1 to {_LONGEST_NAME} printable characters, not {name!r:.80}")
    if not callable(fn):
        raise StepError(
            f"step {name!r} must have a function, not {type(fn).__name__}: give it uncalled, and its arguments"
            f" after it, as in ctx.step({name!r}, charge, order)"
        )
    if blocking and inspect.iscoroutinefunction(fn):
        raise StepError(f"step {name!r} is async: write `await ctx.astep({name!r}, …)` in an async handler")
    seconds = as_seconds(timeout)
    if seconds is not None and not (is_finite(seconds) and seconds > 0):
        raise StepError(f"timeout of step {name!r} must be a timedelta or seconds above 0, not {timeout!r}")
    if not is_int(version) or version < 1:
        raise StepError(f"version of step {name!r} must be an integer, 1 or more, not {version!r}")
    return Plan(
        name, partial(fn, *args, **kwargs), _result_type(fn), _retries(name, retry), seconds, version, tx, log
    )


def note_misspelt(plan: Plan, error: Exception) -> None:
    """Note on an error which option may have been meant: what a step does not know went to its function."""
    for name in plan.call.keywords:
        if isinstance(error, TypeError) and f"unexpected keyword argument {name!r}" in str(error):
            error.add_note(f"if {name} was meant for the step, not for its function: {hint(name, Options._fields)}")


def _retries(name: str, retry: Retries | int | None) -> Retries:
    if retry is None:
        return ONCE
    if isinstance(retry, Retries):
        return retry
    try:
        return Retries(retry)
    except ConfigurationError:
        raise StepError(
            f"retry of step {name!r} must be how often it is tried, or such as Retries(3, Exponential()), not"
            f" {retry!r}"
        ) from None


def _result_type(fn: Callable[..., Any]) -> Any:
    """Return what a function says that it returns; Any where it says nothing that can be read."""
    inner = fn
    while isinstance(inner, partial):
        inner = inner.func
    try:
        hints = get_type_hints(inner if inspect.isroutine(inner) else type(inner).__call__)
    except (NameError, TypeError):
        return Any
    try:
        return form_of(stored_type(hints.get("return", Any)))
    except (NameError, TypeError):
        return Any
