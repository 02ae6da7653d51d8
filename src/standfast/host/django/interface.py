"""Where Django's tasks are: `django.tasks` since Django 6, the package django-tasks before it.

Both have the same interface, but for a few names. Whoever needs one of them takes it from here.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from django.core.exceptions import SuspiciousOperation  # type: ignore[import-untyped]
from django.utils.module_loading import import_string  # type: ignore[import-untyped]

_NEW, _OLD = "django.tasks", "django_tasks"
_IS_NEW = find_spec(_NEW) is not None
_HOME = _NEW if _IS_NEW else _OLD


def _take(module: str, *names: str) -> Any:
    """Return what a module of the tasks has under one of these names."""
    found = import_module(f"{_HOME}.{module}")
    return next(getattr(found, name) for name in names if hasattr(found, name))


BaseTaskBackend: Any = _take("backends.base", "BaseTaskBackend")
Task: Any = _take("base", "Task")
TaskContext: Any = _take("base", "TaskContext")
TaskError: Any = _take("base", "TaskError")
TaskResult: Any = _take("base", "TaskResult")
TaskResultStatus: Any = _take("base", "TaskResultStatus")
InvalidTask: Any = _take("exceptions", "InvalidTask", "InvalidTaskError")
TaskResultDoesNotExist: Any = _take("exceptions", "TaskResultDoesNotExist")
task_enqueued: Any = _take("signals", "task_enqueued")
task_started: Any = _take("signals", "task_started")
task_finished: Any = _take("signals", "task_finished")
task_backends: Any = import_module(_HOME).task_backends
normalize_json: Any = import_module("django.utils.json" if _IS_NEW else f"{_OLD}.utils").normalize_json


def task_named(path: str) -> Any:
    """Return the task that a dotted path leads to. Raises ImportError, or SuspiciousOperation for anything else.

    Whoever can write to the store could otherwise have any function called that can be imported.
    """
    found = import_string(path)
    if not isinstance(found, _task_classes()):
        raise SuspiciousOperation(f"{path} is not a task, and only tasks are run")
    return found


def _task_classes() -> tuple[type, ...]:
    """Return the classes of tasks; a project on Django 6 may have those of django-tasks as well."""
    if _IS_NEW and find_spec(_OLD) is not None:
        return Task, import_module(f"{_OLD}.base").Task
    return (Task,)
