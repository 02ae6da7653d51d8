"""The names that people import from `standfast`."""

from standfast.alerts.channel import AppriseChannel, CommandChannel, DeadMan, WebhookChannel
from standfast.app import Standfast
from standfast.background import Background, BackgroundState
from standfast.codec import Secret
from standfast.context import Context, Interrupted, current_context
from standfast.core.alert import AlertRule, Check, Severity
from standfast.core.backoff import Constant, Custom, Exponential, Linear
from standfast.core.job import Cancellation, Job, Progress
from standfast.core.outcome import Cancel, Discard, Fail, Retry, Snooze, Success
from standfast.core.retries import Retries
from standfast.core.states import State
from standfast.durable.files import SavedFile
from standfast.errors import (
    ArgumentsError,
    BackgroundCancelledError,
    BackgroundClosedError,
    BackgroundError,
    BackgroundFullError,
    ConfigurationError,
    CursorError,
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
    StandfastError,
    StepChangedError,
    StepError,
    StoreError,
    StoreUnavailableError,
    WaitTimeoutError,
)
from standfast.handle import JobHandle
from standfast.ids import new_job_id
from standfast.life import Life
from standfast.locks import Lock
from standfast.schedule.calendar import Calendar
from standfast.schedule.rules import AnyOf, At, Cron, Every
from standfast.schedule.window import Window
from standfast.task import Task

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
    "Standfast",
    "StandfastError",
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
