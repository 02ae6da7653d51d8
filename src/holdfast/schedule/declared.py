"""How rules, windows and calendars are declared: a wrong option is refused with the one that was meant."""

from typing import TYPE_CHECKING, Any

from msgspec import StructMeta

from holdfast.spelling import refuse_unknown


class Declared(StructMeta):
    """The kind of classes whose options are checked by name. Type checkers go by `__init__` instead."""

    if not TYPE_CHECKING:

        def __call__(cls, *args: Any, **options: Any) -> Any:  # noqa: D102, N805 - it makes the object
            refuse_unknown(cls.__name__, options, cls.__struct_fields__)
            return super().__call__(*args, **options)


class DeclaredOfMany(Declared):
    """Likewise, of classes that take any number of things: these are the first field."""

    if not TYPE_CHECKING:

        def __call__(cls, *many: Any, **options: Any) -> Any:  # noqa: D102, N805 - it makes the object
            return super().__call__(**{cls.__struct_fields__[0]: many, **options})
