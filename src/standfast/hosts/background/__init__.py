"""Work in the background of a process: bound to the life of its app, and not durable."""

from standfast.hosts.background.work import Background, BackgroundState

__all__ = ["Background", "BackgroundState"]
