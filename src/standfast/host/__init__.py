"""A worker inside a process that does something else, such as a web server's: bound to its life."""

from standfast.host.host import Host, HostState

__all__ = ["Host", "HostState"]
