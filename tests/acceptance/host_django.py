"""A Django project of hosts in tests: settings, URLs and views. `host_django_wsgi` serves it."""

from django.http import HttpResponse
from django.urls import path

INSTALLED_APPS = ["standfast.hosts.django"]
STANDFAST = {"APP": "host_app:app", "EMBEDDED": True}
ALLOWED_HOSTS = ["127.0.0.1"]
ROOT_URLCONF = "host_django"
SECRET_KEY = "of a test"
DEBUG = True


def answer(_):
    return HttpResponse("here")


def enqueue(request, task):
    from host_app import order  # noqa: PLC0415 - the settings must not import the app

    return HttpResponse(order(task, request.GET.dict()))


urlpatterns = [path("", answer), path("<str:task>", enqueue)]
