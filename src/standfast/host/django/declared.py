"""The TASKS of a project, as tasks of its app: a worker has to know them before it claims a job of theirs."""

from django.conf import settings  # type: ignore[import-untyped]

from standfast.app import Standfast


def declare_backends(app: Standfast) -> None:
    """Declare what runs the tasks of every backend in TASKS whose jobs this app has."""
    if not getattr(settings, "TASKS", None):
        return
    from standfast.host.django.interface import task_backends  # noqa: PLC0415 - not every project has django-tasks
    from standfast.host.django.tasks import StandfastBackend  # noqa: PLC0415

    for backend in task_backends.all():
        if isinstance(backend, StandfastBackend) and backend.app is app:
            backend.declare()
