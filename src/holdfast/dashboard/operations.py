"""All operations there are, in one place: pages, API and its document are made from this table."""

from typing import Any

from holdfast.dashboard.acting.alerts import (
    acknowledge_alert,
    silence_alerts,
    test_channel,
    unacknowledge_alert,
    unsilence_alerts,
)
from holdfast.dashboard.acting.bulk import act_on_many
from holdfast.dashboard.acting.copies import clone_job, edit_and_retry
from holdfast.dashboard.acting.incidents import forget_incident
from holdfast.dashboard.acting.jobs import cancel_job, discard_job, reschedule_job, retry_job, signal_job
from holdfast.dashboard.acting.locks import release_lock
from holdfast.dashboard.acting.queues import pause_queue, resume_queue
from holdfast.dashboard.acting.rules import change_rule, reset_rule, switch_off_rule, switch_on_rule
from holdfast.dashboard.acting.rules_added import add_new_rule, remove_added_rule
from holdfast.dashboard.acting.schedules import (
    backfill_schedule,
    delete_schedule,
    edit_schedule,
    pause_schedule,
    resume_schedule,
    trigger_schedule,
)
from holdfast.dashboard.acting.workers import drain_worker, dump_worker, recycle_worker
from holdfast.dashboard.operation import Operation
from holdfast.dashboard.reading import incidents
from holdfast.dashboard.reading.alerts import list_alerts, show_history
from holdfast.dashboard.reading.audit import list_audit
from holdfast.dashboard.reading.dead import group_dead
from holdfast.dashboard.reading.export import export_jobs
from holdfast.dashboard.reading.figures import show_figures
from holdfast.dashboard.reading.job import show_job
from holdfast.dashboard.reading.jobs import count_jobs, list_jobs
from holdfast.dashboard.reading.locks import list_locks
from holdfast.dashboard.reading.objectives import list_objectives
from holdfast.dashboard.reading.overview import show_overview
from holdfast.dashboard.reading.queues import list_queues, show_queue
from holdfast.dashboard.reading.rules import list_rules
from holdfast.dashboard.reading.schedules import list_schedules, show_schedule
from holdfast.dashboard.reading.settings import show_settings
from holdfast.dashboard.reading.tasks import list_tasks
from holdfast.dashboard.reading.workers import list_workers, show_worker

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
