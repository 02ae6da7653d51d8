"""All operations there are, in one place: pages, API and its document are made from this table."""

from contextlib import closing
from typing import Any

import msgspec

from standfast.admin import incidents
from standfast.admin.alerts import (
    acknowledge_alert,
    add_new_rule,
    change_rule,
    list_alerts,
    list_rules,
    remove_added_rule,
    reset_rule,
    show_history,
    silence_alerts,
    switch_off_rule,
    switch_on_rule,
    test_channel,
    unacknowledge_alert,
    unsilence_alerts,
)
from standfast.admin.audit import list_audit
from standfast.admin.bulk_jobs import act_on_many, export_jobs, group_dead
from standfast.admin.clones import clone_job, edit_and_retry
from standfast.admin.executor import AdminSession, Shown
from standfast.admin.figures import show_figures
from standfast.admin.incidents import forget_incident
from standfast.admin.job_search import JobRow, JobsSeen
from standfast.admin.jobs import (
    cancel_job,
    count_jobs,
    discard_job,
    list_jobs,
    reschedule_job,
    retry_job,
    show_job,
    signal_job,
)
from standfast.admin.locks import list_locks, release_lock
from standfast.admin.objectives import list_objectives
from standfast.admin.operation import Operation, Role, User, WrongRequestError
from standfast.admin.overview import show_overview
from standfast.admin.queues import QueueRow, QueuesSeen, list_queues, pause_queue, resume_queue, show_queue
from standfast.admin.schedules import (
    backfill_schedule,
    delete_schedule,
    edit_schedule,
    list_fires,
    list_schedules,
    list_upcoming,
    pause_schedule,
    resume_schedule,
    show_schedule,
    trigger_schedule,
)
from standfast.admin.settings import show_settings
from standfast.admin.tasks import list_tasks, show_task
from standfast.admin.workers import (
    WorkerRow,
    WorkersSeen,
    drain_worker,
    dump_worker,
    list_workers,
    recycle_worker,
    show_worker,
)
from standfast.model.states import State
from standfast.model.suggestions import closest_name

AnyOperation = Operation[Any, Any]

OPERATIONS: tuple[AnyOperation, ...] = (
    show_overview,
    show_figures,
    list_jobs,
    count_jobs,
    export_jobs,
    show_job,
    group_dead,
    list_queues,
    show_queue,
    list_schedules,
    show_schedule,
    list_upcoming,
    list_fires,
    list_workers,
    show_worker,
    list_locks,
    list_alerts,
    show_history,
    list_rules,
    list_objectives,
    incidents.list_all,
    incidents.show_one,
    list_audit,
    show_settings,
    list_tasks,
    show_task,
    act_on_many,
    retry_job,
    cancel_job,
    reschedule_job,
    signal_job,
    clone_job,
    edit_and_retry,
    discard_job,
    pause_queue,
    resume_queue,
    trigger_schedule,
    pause_schedule,
    resume_schedule,
    edit_schedule,
    backfill_schedule,
    delete_schedule,
    recycle_worker,
    drain_worker,
    dump_worker,
    release_lock,
    forget_incident,
    acknowledge_alert,
    unacknowledge_alert,
    silence_alerts,
    unsilence_alerts,
    test_channel,
    change_rule,
    switch_off_rule,
    switch_on_rule,
    reset_rule,
    add_new_rule,
    remove_added_rule,
)
"""Paths that are whole come before those with a part left open: the first that fits is meant."""

BY_NAME = {operation.name: operation for operation in OPERATIONS}


class AppAdmin:
    """Runs operations on the store of an app by their names, for tools of your own: `app.admin`.

        app.admin.run("queues.pause", name="mail")
        await app.admin.arun("jobs.retry", id=handle.id)

    What changes something is in the audit, with the app's name and `code`.
    """

    def __init__(self, shown: Shown) -> None:
        self._shown = shown

    def run(self, operation: str, **asked: Any) -> Any:
        """Return what an operation answers. From async code use `arun`."""
        with closing(self._session()) as session:
            return session.run(*_meant(operation, asked))

    async def arun(self, operation: str, **asked: Any) -> Any:
        """Do the same from async code."""
        with closing(self._session()) as session:
            return await session.arun(*_meant(operation, asked))

    def queues(self) -> tuple[QueueRow, ...]:
        """Return all queues by name: how many jobs each has by state, the age of its oldest due job, its workers."""
        seen: QueuesSeen = self.run("queues.list")
        return seen.queues

    def counts(self) -> dict[str, int]:
        """Return how many jobs are in each state."""
        queues = self.queues()
        return {state.value: sum(queue.states[state] for queue in queues) for state in State}

    def jobs(self, **which: Any) -> tuple[JobRow, ...]:
        """Return the newest jobs that are meant, as in `app.admin.jobs(state=["dead"], queue="mail", limit=100)`."""
        seen: JobsSeen = self.run("jobs.list", **which)
        return seen.rows

    def workers(self) -> tuple[WorkerRow, ...]:
        """Return the registered workers, the oldest first."""
        seen: WorkersSeen = self.run("workers.list")
        return seen.workers

    def _session(self) -> AdminSession:
        return AdminSession(self._shown, User(self._shown.settings.name or "app", Role.ADMIN), "code")


def _meant(name: str, asked: dict[str, Any]) -> tuple[AnyOperation, msgspec.Struct]:
    operation = BY_NAME.get(name)
    if operation is None:
        meant = closest_name(name, BY_NAME)
        raise WrongRequestError(f"there is no operation {name!r}" + (f"; did you mean {meant!r}?" if meant else ""))
    try:
        return operation, msgspec.convert(asked, operation.asked)
    except msgspec.ValidationError as error:
        raise WrongRequestError(f"{name}: {error}") from error
