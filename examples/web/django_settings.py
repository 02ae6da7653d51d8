"""The settings of the Django example."""

import os

from django.core.management.utils import get_random_secret_key

INSTALLED_APPS = ["standfast.hosts.django"]
STANDFAST = {"APP": "jobs:app", "EMBEDDED": True}  # this one line runs the jobs here

ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
MIDDLEWARE = ["django.middleware.csrf.CsrfViewMiddleware"]
ROOT_URLCONF = "django_shop"
SECRET_KEY = os.environ.get("SECRET_KEY") or get_random_secret_key()
