"""The worker inside the processes that serve requests, where the settings want one."""

import sys
from collections.abc import Mapping
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

from django.conf import settings  # type: ignore[import-untyped]
from django.core.signals import request_started  # type: ignore[import-untyped]

from standfast.hosts.django.configuration import TARGET, app_of, configured, declare_backends

if TYPE_CHECKING:
    from standfast.hosts.host import Host


_started: "list[Host]" = []


def embedded_host() -> "Host | None":
    """Return the host inside this process, if the settings want one and it is a process that may serve."""
    return _started[0] if _started else None


def start_embedded() -> None:
    """Start it, unless this process is none that serves: a management command, a shell, a reloader's parent.

    There the checks say what is wrong with the settings; where requests are served it is a ConfigurationError.
    """
    said = getattr(settings, "STANDFAST", None)
    if not (isinstance(said, Mapping) and said.get("EMBEDDED")):
        return
    # Only who serves loads all that a worker needs.
    from standfast.hosts.detection import Verdict, decide, scene_here  # noqa: PLC0415

    decision = decide(scene_here())
    if decision.verdict is Verdict.NOT:
        return
    from standfast.hosts.binding import start_if_serving  # noqa: PLC0415
    from standfast.hosts.host import Host  # noqa: PLC0415

    checked = configured()
    app = app_of(checked.target)
    declare_backends(app)
    host = Host(app, target=TARGET, **checked.options)
    start_if_serving(host, decision)
    _started[:] = [host]
    _answer_lifespan(host)
    if decision.verdict is Verdict.UNKNOWN:
        request_started.connect(_start_with_request)


def _answer_lifespan(host: "Host") -> None:
    """Let servers of ASGI say when they start and stop, for which Django has no ear.

    It is more than a courtesy: uvicorn ends its process by a signal, and nothing of Python runs after that.
    """
    from django.core.handlers.asgi import ASGIHandler  # type: ignore[import-untyped]  # noqa: PLC0415

    from standfast.hosts.asgi import live  # noqa: PLC0415

    serve = ASGIHandler.__call__

    @wraps(serve)
    async def call(self: Any, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await live(partial(serve, self), host, scope, receive, send)
        else:
            await serve(self, scope, receive, send)

    ASGIHandler.__call__ = call


def _start_with_request(**_: Any) -> None:
    """Start with the first request, unless it is one of Django's test client: who gets requests serves them."""
    request_started.disconnect(_start_with_request)
    if "django.test.client" not in sys.modules:
        from standfast.hosts.binding import start_soon  # noqa: PLC0415 - as above

        start_soon(_started[0])
