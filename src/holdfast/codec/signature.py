"""What a function says about its arguments: names, types, which are secret, which is the Context."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

import msgspec

from holdfast.codec.secrets import holds_secret
from holdfast.codec.types import decoder_of, holds_decimal, is_context, plain_kinds, result_type_of
from holdfast.errors import ConfigurationError

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Known(msgspec.Struct, frozen=True):
    """What is known of a function once its annotations are resolved.

    `plain` has the types whose values need no look before they are stored, and `decimals` the parameters with a
    Decimal in them. The decoders read the secret arguments and the others apart.
    """

    decoder: msgspec.json.Decoder[Any]
    secret_decoder: msgspec.json.Decoder[Any]
    plain: dict[str, frozenset[type]]
    decimals: frozenset[str]
    names: frozenset[str]
    required: frozenset[str]
    secrets: frozenset[str]
    positional: tuple[str, ...]
    context_parameter: str | None
    result_type: Any


def resolve(fn: Callable[..., Any], task: str) -> Known:
    """Read a function's signature.

    Raises ConfigurationError where it cannot be a task, and NameError where an annotation is not defined yet.
    """
    parameters = _named_parameters(fn, task)
    hints = get_type_hints(fn, include_extras=True)
    contexts = [name for name in parameters if is_context(hints.get(name))]
    if len(contexts) > 1:
        raise ConfigurationError(f"{task} has {len(contexts)} Context parameters; keep one")
    taken = {name: each for name, each in parameters.items() if name not in contexts}
    secrets = {name: each for name, each in taken.items() if holds_secret(hints.get(name))}
    shown = {name: each for name, each in taken.items() if name not in secrets}
    return Known(
        decoder=_decoder_for(task, shown, hints),
        secret_decoder=_decoder_for(task, secrets, hints),
        plain={name: plain_kinds(hints.get(name, Any)) for name in taken},
        decimals=frozenset(name for name in taken if holds_decimal(hints.get(name, Any))),
        names=frozenset(taken),
        required=frozenset(name for name, each in taken.items() if each.default is each.empty),
        secrets=frozenset(secrets),
        positional=tuple(name for name, each in taken.items() if each.kind is each.POSITIONAL_OR_KEYWORD),
        context_parameter=contexts[0] if contexts else None,
        result_type=result_type_of(hints.get("return", Any)),
    )


def _named_parameters(fn: Callable[..., Any], task: str) -> Mapping[str, inspect.Parameter]:
    parameters = inspect.signature(fn).parameters
    unnamed = [str(each) for each in parameters.values() if each.kind not in _NAMED]
    if unnamed:
        raise ConfigurationError(
            f"{task} declares {', '.join(unnamed)}; arguments are stored by name, so give each parameter a name"
            " and let it be passed by that name (no *args, no **kwargs, no '/')"
        )
    return parameters


def _decoder_for(
    task: str, parameters: Mapping[str, inspect.Parameter], hints: Mapping[str, Any]
) -> msgspec.json.Decoder[Any]:
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for name, each in parameters.items():
        kind = hints.get(name, Any)
        try:
            decoder_of(kind)
        except (TypeError, RuntimeError) as error:
            raise ConfigurationError(
                f"parameter {name!r} of {task} has a type that JSON cannot carry: {error};"
                " use plain types, dataclasses, pydantic models or msgspec Structs (tagged ones in a union),"
                " or pass an id"
            ) from error
        fields.append((name, kind) if each.default is each.empty else (name, kind, msgspec.UNSET))
    return decoder_of(msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True))
