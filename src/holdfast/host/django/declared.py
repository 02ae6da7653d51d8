"""The TASKS of a project, as tasks of its app: a worker has to know them before it claims a job of theirs."""

from django.conf import settings  # type: ignore[import-untyped]

from holdfast.app import Holdfast


def declare_backends(app: Holdfast) -> None:
    """Declare what runs the tasks of every backend in TASKS whose jobs this app has."""
    if not getattr(settings, "TASKS", None):
        return
    from holdfast.host.django.interface import task_backends  # noqa: PLC0415 - not every project has django-tasks
    from holdfast.host.django.tasks import HoldfastBackend  # noqa: PLC0415

    for backend in task_backends.all():
        if isinstance(backend, HoldfastBackend) and backend.app is app:
            backend.declare()
