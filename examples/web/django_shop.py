"""A web app that does its background work itself: Django, one process, one SQLite file.

    python examples/web/django_shop.py              then open http://127.0.0.1:8000
    gunicorn django_shop:web --chdir examples/web --workers 4

HEALTH_TOKEN=… mounts /health/livez, /health/readyz and /health/healthz for whoever has the token,
DASHBOARD_TOKEN=… likewise /dashboard/; a site with users lets its staff in instead, with auth=staff. The line that
runs the jobs is in django_settings.py.
"""

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from django.core.management import execute_from_command_line
from django.core.wsgi import get_wsgi_application
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.urls import include, path
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_POST
from django.views.static import serve
from jobs import app, monthly_report, shown

from standfast import JobNotFoundError
from standfast.dashboard import Dashboard
from standfast.hosts.django.dashboard import urls as dashboard_urls
from standfast.hosts.django.health import health_urls

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "django_settings")
PAGE = Path(__file__).with_name("page")


@ensure_csrf_cookie
def page(request: HttpRequest, name: str = "index.html") -> HttpResponse:
    """Show the page and what belongs to it."""
    return serve(request, name, document_root=PAGE)


@require_POST
def order_report(_: HttpRequest, month: str) -> JsonResponse:
    """Enqueue a report. The answer comes at once, and the job is safe by then."""
    return JsonResponse({"id": monthly_report.enqueue(month).id}, status=202)


def look_at_job(_: HttpRequest, job_id: str) -> JsonResponse:
    """Tell how far a job is, or what it returned."""
    try:
        return JsonResponse(shown(app.handle(job_id).job()))
    except JobNotFoundError as error:
        raise Http404(str(error)) from error


def look_at_stock(_: HttpRequest) -> JsonResponse:
    """Tell what the scheduled job found, the latest first."""
    fires = app.call(app.schedules.fires("count_stock", limit=2, before=datetime.now(UTC)))
    counts = [shown(app.handle(fire.job_id).job()) for fire in fires if fire.job_id]
    return JsonResponse(counts, safe=False)


urlpatterns = [
    path("months/<str:month>/report", order_report),
    path("jobs/<str:job_id>", look_at_job),
    path("stock", look_at_stock),
    path("", page),
    path("<str:name>", page),
]
if token := os.environ.get("HEALTH_TOKEN"):
    urlpatterns.insert(0, path("health/", include(health_urls(token=token))))
if token := os.environ.get("DASHBOARD_TOKEN"):
    urlpatterns.insert(0, path("dashboard/", include(dashboard_urls(Dashboard(app, token=token)))))

if __name__ == "__main__":
    sys.argv[1:] = sys.argv[1:] or ["runserver", os.environ.get("PORT", "8000")]
    execute_from_command_line(sys.argv)
else:
    web = get_wsgi_application()
