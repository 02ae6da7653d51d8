"""What a function says about its arguments: names, types, which are secret, which is the Context."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

import msgspec

from standfast.codec.models import Adapted, is_adapted, is_field
from standfast.codec.results import Results
from standfast.codec.secrets import holds_secret
from standfast.codec.types import decoder_of, form_of, holds_buffer, is_context, plain_kinds
from standfast.errors import ConfigurationError

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Known(msgspec.Struct, frozen=True):
    """What is known of a function once its annotations are resolved.

    `plain` has the types whose values need no look before they are stored, and `adapted` what writes the parameters
    that take pydantic for it, and `buffers` those that may have bytes in them. The decoders read the secret
    arguments and the others apart.
    """

    decoder: msgspec.json.Decoder[Any]
    secret_decoder: msgspec.json.Decoder[Any]
    plain: dict[str, frozenset[type]]
    adapted: dict[str, type[Adapted]]
    buffers: frozenset[str]
    names: frozenset[str]
    required: frozenset[str]
    secrets: frozenset[str]
    positional: tuple[str, ...]
    context_parameter: str | None
    results: Results


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
    forms = {name: _form_of(task, name, each, hints.get(name, Any)) for name, each in taken.items()}
    return Known(
        decoder=_decoder_for(shown, forms),
        secret_decoder=_decoder_for(secrets, forms),
        plain={name: plain_kinds(form) for name, form in forms.items()},
        buffers=frozenset(name for name in taken if holds_buffer(hints.get(name, Any))),
        adapted={name: form for name, form in forms.items() if is_adapted(form)},
        names=frozenset(taken),
        required=frozenset(name for name, each in taken.items() if each.default is each.empty),
        secrets=frozenset(secrets),
        positional=tuple(name for name, each in taken.items() if each.kind is each.POSITIONAL_OR_KEYWORD),
        context_parameter=contexts[0] if contexts else None,
        results=_results_of(task, hints.get("return", Any)),
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


def _form_of(task: str, name: str, parameter: inspect.Parameter, annotation: Any) -> Any:
    """Return how the arguments of a parameter are read. Raises ConfigurationError where none can be."""
    if is_field(parameter.default):
        raise ConfigurationError(
            f"parameter {name!r} of {task} has a pydantic Field as its default, which a function does not heed;"
            f" write it into the annotation, as in {name}: Annotated[int, Field(ge=0)] = 0"
        )
    try:
        return form_of(annotation)
    except TypeError as error:
        raise ConfigurationError(
            f"parameter {name!r} of {task} has a type that JSON cannot carry: {error}"
        ) from error


def _results_of(task: str, annotation: Any) -> Results:
    try:
        return Results(annotation)
    except TypeError as error:
        raise ConfigurationError(f"{task} returns a type that JSON cannot carry: {error}") from error


def _decoder_for(
    parameters: Mapping[str, inspect.Parameter], forms: Mapping[str, Any]
) -> msgspec.json.Decoder[Any]:
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = [
        (name, forms[name]) if each.default is each.empty else (name, forms[name], msgspec.UNSET)
        for name, each in parameters.items()
    ]
    return decoder_of(msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True))
