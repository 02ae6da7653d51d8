"""How arguments and results become bytes and come back: JSON through msgspec, never pickle.

A payload is the envelope `{"v": <payload version of the task>, "args": {name: value}}`. Only what the caller gave
is stored; defaults are the handler's own, applied when it runs. What is accepted is what the handler will receive:
each payload is read back before it is written, and a value that would arrive changed is refused.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from holdfast.context import Context
from holdfast.core.outcome import Outcome
from holdfast.errors import ArgumentsError, ConfigurationError, PayloadError, ResultEncodingError

MAX_BYTES = 1024 * 1024
"""The largest payload, and the largest result, that is stored."""

_UNENCODABLE = (TypeError, ValueError, OverflowError, RecursionError)
_WHERE = re.compile(r"(?P<what>.*) - at `\$\.(?P<name>\w+)(?P<inside>.*)`")
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class _Envelope(msgspec.Struct):
    v: int
    args: msgspec.Raw


class _Resolved(msgspec.Struct, frozen=True):
    """What is known once the annotations are resolved."""

    decoder: msgspec.json.Decoder[Any]
    names: frozenset[str]
    required: tuple[str, ...]
    positional: tuple[str, ...]
    context_parameter: str | None
    result_type: Any


class Arguments:
    """The arguments that one task takes: binds, checks, encodes and decodes them."""

    def __init__(self, fn: Callable[..., Any], *, task: str, version: int = 1) -> None:
        self.task = task
        self.version = version
        self._fn = fn
        self._parameters = _named_parameters(fn, task)
        self._known: _Resolved | None = None
        try:
            hints = get_type_hints(fn, include_extras=True)
        except NameError:
            return  # a name that the module defines further down: resolved at first use
        self._known = self._resolve(hints)

    @property
    def context_parameter(self) -> str | None:
        """The parameter that receives the `Context`, if there is one."""
        return self._resolved.context_parameter

    @property
    def result_type(self) -> Any:
        """What the handler returns when it succeeds; Any where that is not said or cannot be read back."""
        return self._resolved.result_type

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the given arguments by name. Raises ArgumentsError for a missing, extra or doubled one."""
        known = self._resolved
        if len(args) > len(known.positional):
            raise ArgumentsError(
                f"{self.task} takes {len(known.positional)} positional arguments, not {len(args)};"
                " pass the rest by name or leave them out"
            )
        given = dict(zip(known.positional, args, strict=False))
        if doubled := given.keys() & kwargs.keys():
            raise ArgumentsError(f"{self.task} got {_quoted(doubled)} twice; pass it by position or by name")
        given.update(kwargs)
        if extra := given.keys() - known.names:
            raise ArgumentsError(
                f"{self.task} has no parameter {_quoted(extra)}; it takes {_quoted(known.names) or 'nothing'}"
            )
        if missing := [name for name in known.required if name not in given]:
            raise ArgumentsError(f"{self.task} needs {_quoted(missing)}, which has no default; pass it")
        return given

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
        """Return the payload for these arguments. Raises ArgumentsError naming the one that does not fit."""
        given = self.bind(args, kwargs)
        body = self._encode_body(given)
        self._check_arrival(given, body)
        payload = msgspec.json.encode(_Envelope(self.version, msgspec.Raw(body)))
        if len(payload) > MAX_BYTES:
            raise ArgumentsError(
                f"the arguments of {self.task} take {len(payload):,} bytes and at most {MAX_BYTES:,} are stored;"
                " keep the data elsewhere and pass a reference to it"
            )
        return payload

    def decode(self, payload: bytes) -> dict[str, Any]:
        """Return the arguments of a stored payload by name. Raises PayloadError if it cannot be read."""
        try:
            envelope = msgspec.json.decode(payload, type=_Envelope)
            if envelope.v > self.version:
                raise PayloadError(
                    f"the payload has version {envelope.v} and {self.task} knows up to {self.version};"
                    " deploy the newer task"
                )
            values = self._resolved.decoder.decode(envelope.args)
        except msgspec.DecodeError as error:
            raise PayloadError(
                f"the stored payload does not fit {self.task}: {error};"
                " raise the task's version when its parameters change"
            ) from error
        return _given_fields(values)

    @property
    def _resolved(self) -> _Resolved:
        if self._known is None:
            try:
                hints = get_type_hints(self._fn, include_extras=True)
            except NameError as error:
                raise ConfigurationError(
                    f"an annotation of {self.task} cannot be resolved: {error};"
                    " import the name where the task is defined, not only under TYPE_CHECKING"
                ) from error
            self._known = self._resolve(hints)
        return self._known

    def _resolve(self, hints: Mapping[str, Any]) -> _Resolved:
        contexts = [name for name in self._parameters if _is_context(hints.get(name))]
        if len(contexts) > 1:
            raise ConfigurationError(f"{self.task} has {len(contexts)} Context parameters; keep one")
        taken = {name: each for name, each in self._parameters.items() if name not in contexts}
        return _Resolved(
            decoder=self._decoder_for(taken, hints),
            names=frozenset(taken),
            required=tuple(name for name, each in taken.items() if each.default is each.empty),
            positional=tuple(name for name, each in taken.items() if each.kind is each.POSITIONAL_OR_KEYWORD),
            context_parameter=contexts[0] if contexts else None,
            result_type=_result_type(hints.get("return", Any)),
        )

    def _decoder_for(
        self, parameters: Mapping[str, inspect.Parameter], hints: Mapping[str, Any]
    ) -> msgspec.json.Decoder[Any]:
        fields: list[tuple[str, Any] | tuple[str, Any, Any]] = [
            (name, hints.get(name, Any))
            if each.default is each.empty
            else (name, hints.get(name, Any), msgspec.UNSET)
            for name, each in parameters.items()
        ]
        try:
            shape = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)
            return msgspec.json.Decoder(shape)
        except (TypeError, RuntimeError) as error:
            raise ConfigurationError(
                f"a parameter of {self.task} has a type that JSON cannot carry: {error};"
                " use plain types, dataclasses or msgspec Structs, or pass an id"
            ) from error

    def _encode_body(self, given: Mapping[str, Any]) -> bytes:
        try:
            return msgspec.json.encode(given)
        except _UNENCODABLE:
            name, error = _first_unencodable(given)
            raise ArgumentsError(
                f"argument {name!r} of {self.task} cannot be stored as JSON: {error};"
                " pass plain values, dataclasses or msgspec Structs, or an id to look it up by"
            ) from error

    def _check_arrival(self, given: Mapping[str, Any], body: bytes) -> None:
        """Refuse what the handler would not receive as it was given."""
        try:
            received = self._resolved.decoder.decode(body)
        except msgspec.ValidationError as error:
            raise ArgumentsError(self._misfit(error)) from error
        for name, value in given.items():
            arrives = getattr(received, name)
            if not _survives(value, arrives):
                raise ArgumentsError(
                    f"argument {name!r} of {self.task} was given as {_type_name(value)} but would arrive as"
                    f" {_type_name(arrives)} {arrives!r:.80}; annotate the parameter with the type that you pass,"
                    " or pass plain JSON values"
                )

    def _misfit(self, error: msgspec.ValidationError) -> str:
        found = _WHERE.fullmatch(str(error))
        if found is None:
            return f"the arguments of {self.task} do not fit its parameters: {error}; pass the annotated types"
        name, inside = found["name"], found["inside"]
        place = f" (inside it, at {inside.lstrip('.')})" if inside else ""
        return f"argument {name!r} of {self.task} does not fit{place}: {found['what']}; pass the annotated type"


def encode_result(value: Any) -> bytes:
    """Return a handler's result as JSON. Raises ResultEncodingError if it cannot be stored."""
    try:
        encoded = msgspec.json.encode(value)
    except _UNENCODABLE as error:
        raise ResultEncodingError(
            f"the result, of type {_type_name(value)}, cannot be stored as JSON: {error};"
            " return plain values, dataclasses or msgspec Structs"
        ) from error
    if len(encoded) > MAX_BYTES:
        raise ResultEncodingError(
            f"the result takes {len(encoded):,} bytes and at most {MAX_BYTES:,} are stored;"
            " keep it elsewhere and return a reference to it"
        )
    return encoded


def decode_result(encoded: bytes, type: Any = Any) -> Any:  # noqa: A002 - the word that msgspec uses too
    """Return a stored result as `type`. Raises PayloadError if it is something else."""
    try:
        return msgspec.json.decode(encoded, type=type)
    except msgspec.DecodeError as error:
        raise PayloadError(
            f"the stored result does not fit the task's return annotation: {error}; correct the annotation"
        ) from error


def _named_parameters(fn: Callable[..., Any], task: str) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(fn).parameters
    unnamed = [str(each) for each in parameters.values() if each.kind not in _NAMED]
    if unnamed:
        raise ConfigurationError(
            f"{task} declares {', '.join(unnamed)}; arguments are stored by name, so give each parameter a name"
            " and let it be passed by that name (no *args, no **kwargs, no '/')"
        )
    return dict(parameters)


def _is_context(annotation: Any) -> bool:
    if get_origin(annotation) in (Union, UnionType):
        return set(get_args(annotation)) == {Context, NoneType}
    return annotation is Context


def _result_type(annotation: Any) -> Any:
    """Leave out the outcomes, which are never stored; fall back to Any for what msgspec cannot read back."""
    members = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    stored = tuple(each for each in members if not (isinstance(each, type) and issubclass(each, Outcome)))
    meant = Union[stored] if stored else Any  # noqa: UP007 - built from values
    try:
        msgspec.json.Decoder(meant)
    except TypeError:
        return Any
    return meant


def _first_unencodable(given: Mapping[str, Any]) -> tuple[str, Exception]:
    for name, value in given.items():
        try:
            msgspec.json.encode(value)
        except _UNENCODABLE as error:
            return name, error
    raise AssertionError("all values encode one by one but not together")


def _given_fields(values: msgspec.Struct) -> dict[str, Any]:
    return {name: value for name, value in msgspec.structs.asdict(values).items() if value is not msgspec.UNSET}


def _survives(given: Any, received: Any) -> bool:
    """Tell whether a value came through the round trip as it was; a tuple may arrive as a list."""
    if given == received:
        return True
    if isinstance(given, list | tuple) and isinstance(received, list | tuple):
        return len(given) == len(received) and all(map(_survives, given, received))
    if isinstance(given, Mapping) and isinstance(received, Mapping):
        return given.keys() == received.keys() and all(_survives(given[key], received[key]) for key in given)
    # Equality says no for a dataclass with a tuple inside, or without __eq__; msgspec has checked its fields.
    return type(given) is type(received)


def _type_name(value: Any) -> str:
    return type(value).__qualname__


def _quoted(names: Any) -> str:
    return ", ".join(repr(name) for name in sorted(names))
