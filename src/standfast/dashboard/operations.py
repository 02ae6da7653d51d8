"""All operations there are, in one place: pages, API and its document are made from this table."""

from typing import Any

from standfast.dashboard.acting.alerts import (
    acknowledge_alert,
    silence_alerts,
    test_channel,
    unacknowledge_alert,
    unsilence_alerts,
)
from standfast.dashboard.acting.bulk import act_on_many
from standfast.dashboard.acting.copies import clone_job, edit_and_retry
from standfast.dashboard.acting.incidents import forget_incident
from standfast.dashboard.acting.jobs import cancel_job, discard_job, reschedule_job, retry_job, signal_job
from standfast.dashboard.acting.locks import release_lock
from standfast.dashboard.acting.queues import pause_queue, resume_queue
from standfast.dashboard.acting.rules import change_rule, reset_rule, switch_off_rule, switch_on_rule
from standfast.dashboard.acting.rules_added import add_new_rule, remove_added_rule
from standfast.dashboard.acting.schedules import (
    backfill_schedule,
    delete_schedule,
    edit_schedule,
    pause_schedule,
    resume_schedule,
    trigger_schedule,
)
from standfast.dashboard.acting.workers import drain_worker, dump_worker, recycle_worker
from standfast.dashboard.operation import Operation
from standfast.dashboard.reading import incidents
from standfast.dashboard.reading.alerts import list_alerts, show_history
from standfast.dashboard.reading.audit import list_audit
from standfast.dashboard.reading.dead import group_dead
from standfast.dashboard.reading.export import export_jobs
from standfast.dashboard.reading.figures import show_figures
from standfast.dashboard.reading.job import show_job
from standfast.dashboard.reading.jobs import count_jobs, list_jobs
from standfast.dashboard.reading.locks import list_locks
from standfast.dashboard.reading.objectives import list_objectives
from standfast.dashboard.reading.overview import show_overview
from standfast.dashboard.reading.queues import list_queues, show_queue
from standfast.dashboard.reading.rules import list_rules
from standfast.dashboard.reading.schedules import list_schedules, show_schedule
from standfast.dashboard.reading.settings import show_settings
from standfast.dashboard.reading.tasks import list_tasks
from standfast.dashboard.reading.workers import list_workers, show_worker

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
