"""Standfast inside a Django project: an app for INSTALLED_APPS.

    INSTALLED_APPS = [..., "standfast.hosts.django"]
    STANDFAST = {"APP": "shop.jobs:app", "EMBEDDED": True}
    TASKS = {"default": {"BACKEND": "standfast.hosts.django.tasks.StandfastBackend"}}

Nothing is imported here: Django loads what it needs when its settings are there.
"""
