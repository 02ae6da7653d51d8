"""The tasks that workers have told of."""

from holdfast.dashboard.desk import Desk
from holdfast.dashboard.operation import reads
from holdfast.dashboard.shapes.tasks import TaskSeen, TasksSeen
from holdfast.dashboard.shapes.words import NothingAsked


@reads("tasks.list", "/tasks")
async def list_tasks(desk: Desk, asked: NothingAsked) -> TasksSeen:  # noqa: ARG001 - there is nothing to ask
    """List the tasks that workers have told of, by name."""
    return TasksSeen(tasks=await known_tasks(desk))


async def known_tasks(desk: Desk) -> tuple[TaskSeen, ...]:
    """Return the tasks that workers have told of, by name."""
    return ()


async def find_task(desk: Desk, name: str) -> TaskSeen | None:
    """Return a task, if workers have told of it."""
    return next((task for task in await known_tasks(desk) if task.name == name), None)
