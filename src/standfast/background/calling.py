"""What is to be called in the background: read and checked at the call, so that it does not fail for it later."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from types import NoneType
from typing import Any, get_type_hints

import msgspec

from standfast.codec import NO_SECRETS, Scrub
from standfast.codec.secrets import holds_secret
from standfast.codec.types import Supplied, members_of
from standfast.errors import ArgumentsError
from standfast.life import Life
from standfast.task import Task

AnyTask = Task[..., Any]


class Call(msgspec.Struct, frozen=True):
    """A function with its arguments. `scrub` takes those out of texts that nobody is to see."""

    name: str
    is_async: bool
    run: Callable[[Life], Any]
    scrub: Scrub


def read_call(given: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], name: str | None) -> Call:
    """Return what is to be called. Raises ArgumentsError for what cannot be."""
    fn = given.fn if isinstance(given, Task) else given
    _check_callable(given)
    named = name or (given.name if isinstance(given, Task) else _name_of(fn))
    code = _code_of(fn)
    if inspect.isgeneratorfunction(code) or inspect.isasyncgenfunction(code):
        raise ArgumentsError(f"{named} yields, and nobody would take what it yields; let it return")
    hints = _hints_of(code)
    parameter = _life_parameter(named, hints)
    try:
        signature = inspect.signature(fn)
    except (ValueError, TypeError):  # written in C, and says nothing of its arguments
        return Call(named, is_async=False, run=lambda _: fn(*args, **kwargs), scrub=NO_SECRETS)
    bound = _bind(named, signature, parameter, args, kwargs)
    secrets = [
        bound.arguments.get(each, declared.default)
        for each, declared in signature.parameters.items()
        if each in hints and _is_secret(hints[each])
    ]

    def run(life: Life) -> Any:
        if parameter is not None:
            bound.arguments[parameter] = life
            bound.apply_defaults()
        return fn(*bound.args, **bound.kwargs)

    is_async = inspect.iscoroutinefunction(code)
    return Call(named, is_async, run, Scrub(secrets) if secrets else NO_SECRETS)


def _check_callable(given: Any) -> None:
    if inspect.iscoroutine(given):
        given.close()  # or else Python would complain that nobody has awaited it
        raise ArgumentsError(
            f"app.background takes a function and its arguments, and {given.__qualname__} was called already:"
            f" write app.background({given.__name__}, …)"
        )
    if inspect.isawaitable(given):
        raise ArgumentsError("app.background takes a function and its arguments, not what awaits one")
    if not callable(given):
        raise ArgumentsError(f"app.background takes a function and its arguments, not {given!r:.80}")


def _code_of(fn: Any) -> Any:
    """Return the function that has the code and the annotations of a callable."""
    while isinstance(fn, partial):
        fn = fn.func
    if inspect.isclass(fn):
        return fn.__init__
    return fn if inspect.isroutine(fn) else type(fn).__call__


def _name_of(fn: Any) -> str:
    while isinstance(fn, partial):
        fn = fn.func
    return getattr(fn, "__qualname__", None) or type(fn).__qualname__


def _hints_of(code: Any) -> Mapping[str, Any]:
    try:
        return get_type_hints(code, include_extras=True)
    except Exception:  # noqa: BLE001 - annotations may be anything, and most functions need none of ours
        return {}


def _life_parameter(name: str, hints: Mapping[str, Any]) -> str | None:
    """Return the parameter that asks for the life of the work."""
    found = None
    for parameter, annotation in hints.items():
        kinds = [each for each in members_of(annotation) if each is not NoneType]
        if len(kinds) != 1 or not (isinstance(kinds[0], type) and issubclass(kinds[0], Supplied)):
            continue
        if kinds[0] is not Life:
            raise ArgumentsError(
                f"{name} takes a {kinds[0].__name__}, which only a job has: annotate {parameter!r} with Life, which"
                " jobs and work in the background have, or enqueue it"
            )
        if found is not None:
            raise ArgumentsError(f"{name} has several Life parameters; keep one")
        found = parameter
    return found


def _is_secret(annotation: Any) -> bool:
    try:
        return holds_secret(annotation)
    except Exception:  # noqa: BLE001 - what cannot be read is hidden
        return True


def _bind(
    name: str,
    signature: inspect.Signature,
    parameter: str | None,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> inspect.BoundArguments:
    """Return the arguments by name, without the life; it can be put among them."""
    taken = [each for each in signature.parameters.values() if each.name != parameter]
    try:
        bound = signature.replace(parameters=taken).bind(*args, **kwargs)
    except TypeError as error:
        raise ArgumentsError(f"{name} cannot be called like this: {error}; it takes {signature}") from error
    return inspect.BoundArguments(signature, bound.arguments)
