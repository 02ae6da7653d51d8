"""Processes that hold a worker: the child of a supervisor, a web server; and background work beside requests."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from standfast.hosts.host import Host, HostState


__all__ = ["Host", "HostState"]


def __getattr__(name: str) -> Any:
    """Import the host when it is asked for: an app, which has background work, needs none."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("standfast.hosts.host"), name)
