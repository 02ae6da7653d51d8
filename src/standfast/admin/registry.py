"""All operations there are, in one place: pages, API and its document are made from this table."""

from typing import Any

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
from standfast.admin.figures import show_figures
from standfast.admin.incidents import forget_incident
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
from standfast.admin.operation import Operation
from standfast.admin.overview import show_overview
from standfast.admin.queues import list_queues, pause_queue, resume_queue, show_queue
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
from standfast.admin.workers import drain_worker, dump_worker, list_workers, recycle_worker, show_worker

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


def operation_named(name: str) -> AnyOperation | None:
    """Return the operation of this name, if there is one."""
    return BY_NAME.get(name)
