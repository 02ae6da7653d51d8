"""Health over HTTP in a Django project: URLs to include, as in `path("ops/", include(health_urls(token=…)))`."""

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse  # type: ignore[import-untyped]
from django.urls import URLPattern, path  # type: ignore[import-untyped]

from standfast.hosts.django.configuration import app_of, configured
from standfast.hosts.django.embedded import embedded_host
from standfast.observe.health.access import RATE
from standfast.observe.health.endpoints import Health, Request


def health_urls(*, token: str | None = None, networks: Sequence[str] = (), rate: float = RATE) -> list[URLPattern]:
    """Return the URLs `livez`, `readyz` and `healthz` about the app of the settings. The options are of `Health`.

    Where the settings want a worker inside this process, it is ready while that works.
    """
    app = app_of(configured().target)
    health = Health(app, token=token, networks=networks, rate=rate, host=embedded_host())

    def tell_health(request: HttpRequest, look: str) -> HttpResponse:
        """Answer, under WSGI and ASGI alike; Django calls it in a thread there."""
        said: dict[str, Any] = request.META
        given = said.get("HTTP_AUTHORIZATION")
        credentials = () if given is None else (given.encode("latin-1", "replace"),)
        answer = health.answer(Request(request.method, f"/{look}", said.get("REMOTE_ADDR"), credentials))
        return HttpResponse(answer.body, status=int(answer.status), headers=dict(answer.headers))

    return [path("<path:look>", tell_health)]
