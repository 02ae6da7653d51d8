"""The names that people import from `holdfast`."""

from holdfast.alerts.channel import AppriseChannel, CommandChannel, DeadMan, WebhookChannel
from holdfast.app import Holdfast
from holdfast.background import Background, BackgroundState
from holdfast.codec import Secret
from holdfast.context import Context, Interrupted, current_context
from holdfast.core.alert import AlertRule, Check, Severity
from holdfast.core.backoff import Constant, Custom, Exponential, Linear
from holdfast.core.job import Cancellation, Job, Progress
from holdfast.core.outcome import Cancel, Discard, Fail, Retry, Snooze, Success
from holdfast.core.retries import Retries
from holdfast.core.states import State
from holdfast.durable.files import SavedFile
from holdfast.errors import (
    ArgumentsError,
    BackgroundCancelledError,
    BackgroundClosedError,
    BackgroundError,
    BackgroundFullError,
    ConfigurationError,
    CursorError,
    HoldfastError,
    JobCancelledError,
    JobDeadError,
    JobNotFoundError,
    JobStateError,
    KeyTakenError,
    LockError,
    LockLostError,
    LockStateError,
    LockTimeoutError,
    LostClaimError,
    ResultError,
    ResultExpiredError,
    ResultTimeoutError,
    ScheduleExistsError,
    ScheduleNotFoundError,
    ScheduleUnreadableError,
    StepChangedError,
    StepError,
    StoreError,
    StoreUnavailableError,
    WaitTimeoutError,
)
from holdfast.handle import JobHandle
from holdfast.ids import new_job_id
from holdfast.life import Life
from holdfast.locks import Lock
from holdfast.schedule.calendar import Calendar
from holdfast.schedule.rules import AnyOf, At, Cron, Every
from holdfast.schedule.window import Window
from holdfast.task import Task

__all__ = [
    "AlertRule",
    "AnyOf",
    "AppriseChannel",
    "ArgumentsError",
    "At",
    "Background",
    "BackgroundCancelledError",
    "BackgroundClosedError",
    "BackgroundError",
    "BackgroundFullError",
    "BackgroundState",
    "Calendar",
    "Cancel",
    "Cancellation",
    "Check",
    "CommandChannel",
    "ConfigurationError",
    "Constant",
    "Context",
    "Cron",
    "CursorError",
    "Custom",
    "DeadMan",
    "Discard",
    "Every",
    "Exponential",
    "Fail",
    "Holdfast",
    "HoldfastError",
    "Interrupted",
    "Job",
    "JobCancelledError",
    "JobDeadError",
    "JobHandle",
    "JobNotFoundError",
    "JobStateError",
    "KeyTakenError",
    "Life",
    "Linear",
    "Lock",
    "LockError",
    "LockLostError",
    "LockStateError",
    "LockTimeoutError",
    "LostClaimError",
    "Progress",
    "ResultError",
    "ResultExpiredError",
    "ResultTimeoutError",
    "Retries",
    "Retry",
    "SavedFile",
    "ScheduleExistsError",
    "ScheduleNotFoundError",
    "ScheduleUnreadableError",
    "Secret",
    "Severity",
    "Snooze",
    "State",
    "StepChangedError",
    "StepError",
    "StoreError",
    "StoreUnavailableError",
    "Success",
    "Task",
    "WaitTimeoutError",
    "WebhookChannel",
    "Window",
    "current_context",
    "new_job_id",
]
