"""Holdfast inside a Django project: an app for INSTALLED_APPS.

    INSTALLED_APPS = [..., "holdfast.host.django"]
    HOLDFAST = {"APP": "shop.jobs:app", "EMBEDDED": True}
    TASKS = {"default": {"BACKEND": "holdfast.host.django.tasks.HoldfastBackend"}}

Nothing is imported here: Django loads what it needs when its settings are there.
"""
