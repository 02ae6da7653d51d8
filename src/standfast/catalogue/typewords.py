"""Annotations as people write them: `list[str] | None`. Pure."""

import inspect
from collections.abc import Mapping
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

_WORDS: Mapping[Any, str] = MappingProxyType(
    {Any: "any", inspect.Parameter.empty: "any", None: "None", NoneType: "None", ...: "..."}
)


def type_words(annotation: Any) -> str:
    """Return an annotation in words; what it is annotated with besides is left out."""
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return type_words(inside[0])
    if origin in (Union, UnionType):
        return " | ".join(map(type_words, inside))
    if origin is Literal:
        return " | ".join(map(repr, inside))
    if origin is not None and inside:
        return f"{_name(origin)}[{', '.join(map(type_words, inside))}]"
    return _name(annotation)


def _name(annotation: Any) -> str:
    try:
        if annotation in _WORDS:
            return _WORDS[annotation]
    except TypeError:  # it cannot be looked up
        return str(annotation)
    name = getattr(annotation, "__name__", None)
    return name if isinstance(name, str) else str(annotation).removeprefix("typing.")
