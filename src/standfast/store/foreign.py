"""Connections that are not ours: what they are, and how those that cannot be used are refused."""

from typing import Any

from standfast.errors import ConfigurationError


def comes_from(package: str, thing: Any) -> bool:
    """Tell whether the object's class, or one it is derived from, comes from a package; nothing is imported."""
    return any(kind.__module__.partition(".")[0] == package for kind in type(thing).__mro__)


def kind_of(thing: Any) -> str:
    """Return what something is, for a message."""
    return f"{type(thing).__module__}.{type(thing).__qualname__}"


def no_connection(thing: Any, kinds: str) -> ConfigurationError:
    """Return the error for something that is none of the kinds through which a transaction can be joined."""
    return ConfigurationError(f"a transaction is joined through {kinds}, not through {kind_of(thing)}")


def to_be_awaited(connection: Any) -> ConfigurationError:
    """Return the error for an async connection that was given to sync code."""
    return ConfigurationError(
        f"your {type(connection).__name__} has to be awaited: use aenqueue and aenqueue_many, or async with"
        " ctx.transaction"
    )


def not_awaited(connection: Any) -> ConfigurationError:
    """Return the error for a sync connection that was given to async code."""
    return ConfigurationError(
        f"your {type(connection).__name__} cannot be awaited, and the event loop would wait for the database: use"
        " enqueue and enqueue_many, or with ctx.transaction; aenqueue needs an async connection"
    )
