"""The dashboard at a path of your Django site, for those who are signed in there.

from standfast.dashboard import Dashboard
from standfast.hosts.django.dashboard import staff, urls

dashboard = Dashboard(app, auth=staff)
urlpatterns = [path("jobs/", include(urls(dashboard)))]
"""

from collections.abc import Iterable
from http import HTTPStatus
from io import BytesIO
from typing import Any

from django.core.handlers.asgi import ASGIRequest  # type: ignore[import-untyped]
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse  # type: ignore[import-untyped]
from django.urls import URLPattern, re_path  # type: ignore[import-untyped]
from django.views.decorators.csrf import csrf_exempt  # type: ignore[import-untyped]
from starlette.requests import Request

from standfast.admin.operation import Role, User
from standfast.dashboard.dashboard import USER, Dashboard


def staff(request: Request) -> User | None:
    """Let in who may use Django's admin: superusers as admins, other staff as operators."""
    user = request.scope.get(USER)
    if user is None or not (user.is_active and user.is_staff):
        return None
    return User(user.get_username(), Role.ADMIN if user.is_superuser else Role.OPERATOR)


def urls(dashboard: Dashboard) -> list[URLPattern]:
    """Return what `include` takes. Django's own CSRF check does not apply: the dashboard has its own."""

    def view(request: HttpRequest, below: str) -> HttpResponse | StreamingHttpResponse:
        user = getattr(request, "user", None)
        known = user if user is not None and user.is_authenticated else None  # looks it up here, in Django's thread
        environ: dict[str, Any] = {
            **request.META,
            "REQUEST_METHOD": request.method,
            "SCRIPT_NAME": request.path[: len(request.path) - len(below) - 1],
            "PATH_INFO": f"/{below}",
            "wsgi.input": BytesIO(request.body),
            "wsgi.url_scheme": request.scheme,
            USER: known,
        }
        began: list[tuple[str, list[tuple[str, str]]]] = []
        parts = dashboard.wsgi(environ, lambda status, headers: began.append((status, headers)))
        ((status, headers),) = began
        answer = _whole_or_streamed(request, parts, {name.lower() for name, _ in headers})
        answer.status_code = HTTPStatus(int(status.split(" ", maxsplit=1)[0]))
        for name, value in headers:
            if name.lower() == "set-cookie":
                answer.cookies.load(value)
            else:
                answer[name] = value
        return answer

    return [re_path(r"^(?P<below>.*)$", csrf_exempt(view), name="standfast-dashboard")]


def _whole_or_streamed(
    request: HttpRequest, parts: Iterable[bytes], headers: set[str]
) -> HttpResponse | StreamingHttpResponse:
    """Return an answer that is sent while it is made, where its length is not known and Django can do that."""
    if "content-length" in headers or isinstance(request, ASGIRequest):
        return HttpResponse(b"".join(parts))
    return StreamingHttpResponse(parts)
