"""SHOP_URL names the database, which the jobs share; SHOP_ELSEWHERE a store that is another one."""

import json
import os

from connections.faces import for_libpq

URL = os.environ["SHOP_URL"]


def database(url):
    if url.startswith("sqlite:///"):
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": url.removeprefix("sqlite:///")}
    said = for_libpq(url)
    names = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
    return {
        "ENGINE": "django.db.backends.postgresql",
        **{name: said.get(theirs, "") for name, theirs in names.items()},
    }


SECRET_KEY = "for tests"
USE_TZ = True
DATABASES = {"default": database(URL)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["django_tasks", "djshop", "standfast.hosts.django"]
ROOT_URLCONF = "djshop.urls"
ALLOWED_HOSTS = ["testserver"]
TEST_RUNNER = "djshop.own_runner.OnTheSameDatabase"

STANDFAST = json.loads(os.environ.get("SHOP_STANDFAST", '{"APP": "djshop.jobs:app"}'))
_BACKEND = "standfast.hosts.django.tasks.StandfastBackend"
TASKS = {
    "default": {"BACKEND": _BACKEND, "QUEUES": ["default", "mail"]},
    "tried": {"BACKEND": _BACKEND, "QUEUES": [], "OPTIONS": {"max_attempts": 2, "backoff": 0.01}},
    "elsewhere": {"BACKEND": _BACKEND, "OPTIONS": {"app": "djshop.jobs:elsewhere"}},
    "at_once": {"BACKEND": _BACKEND, "OPTIONS": {"app": "djshop.jobs:elsewhere"}, "ENQUEUE_ON_COMMIT": False},
}
