"""The JSON API, made from the operations, and the document that describes it."""

from standfast.dashboard.api.routes import PREFIX, DeskOf, routes

__all__ = ["PREFIX", "DeskOf", "routes"]
