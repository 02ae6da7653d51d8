"""A Django site in a test with the dashboard for its staff, as gunicorn serves it: settings, URLs, views, WSGI."""

import os
from pathlib import Path

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application

FOLDER = Path(os.environ["SITE_FOLDER"])
settings.configure(
    ALLOWED_HOSTS=["127.0.0.1"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": FOLDER / "site.db"}},
    DEBUG=False,
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions"],
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
    ],
    ROOT_URLCONF="dashboard_django",
    SECRET_KEY="of a test",
    USE_TZ=True,
)
django.setup()

from django.contrib.auth import get_user_model, login  # noqa: E402 - Django is set up first
from django.core.management import call_command  # noqa: E402
from django.http import HttpResponse  # noqa: E402
from django.urls import include, path  # noqa: E402

from standfast import Standfast  # noqa: E402
from standfast.dashboard import Dashboard  # noqa: E402
from standfast.hosts.django.dashboard import staff, urls  # noqa: E402

app = Standfast(f"sqlite:///{FOLDER}/jobs.db")


@app.task
def fail():
    raise ValueError("of the test")


def enter(request, name):
    login(request, get_user_model().objects.get(username=name), "django.contrib.auth.backends.ModelBackend")
    return HttpResponse("in")


dashboard = Dashboard(app, auth=staff, secret="shared by all processes of the site")
urlpatterns = [path("enter/<str:name>", enter), path("ops/jobs/", include(urls(dashboard)))]


def prepare():
    """Make the tables, somebody of each kind, and a dead job; return its id."""
    call_command("migrate", "-v0")
    users = get_user_model().objects
    users.create_superuser("root")
    users.create_user("sam", is_staff=True)
    users.create_user("eve")
    handle = fail.options(max_attempts=1).enqueue()
    app.close()
    return handle.id


web = get_wsgi_application()
