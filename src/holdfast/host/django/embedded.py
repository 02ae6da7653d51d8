"""The worker inside the processes that serve requests, where the settings want one."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from django.conf import settings  # type: ignore[import-untyped]

from holdfast.host.django.configured import TARGET, app_of, configured
from holdfast.host.django.declared import declare_backends

if TYPE_CHECKING:
    from holdfast.host.host import Host

_started: "list[Host]" = []


def embedded_host() -> "Host | None":
    """Return the host inside this process, if the settings want one and it is a process that may serve."""
    return _started[0] if _started else None


def start_embedded() -> None:
    """Start it, unless this process is none that serves: a management command, a shell, a reloader's parent.

    There the checks say what is wrong with the settings; where requests are served it is a ConfigurationError.
    """
    said = getattr(settings, "HOLDFAST", None)
    if not (isinstance(said, Mapping) and said.get("EMBEDDED")):
        return
    # Only who serves loads all that a worker needs.
    from holdfast.host.serving import Verdict, decide, scene_here  # noqa: PLC0415

    decision = decide(scene_here())
    if decision.verdict is Verdict.NOT:
        return
    from holdfast.host.binding import start_if_serving  # noqa: PLC0415
    from holdfast.host.host import Host  # noqa: PLC0415

    checked = configured()
    app = app_of(checked.target)
    declare_backends(app)
    host = Host(app, target=TARGET, **checked.options)
    start_if_serving(host, decision)
    _started[:] = [host]
