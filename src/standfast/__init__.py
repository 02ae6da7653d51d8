"""Background jobs for Python that stand fast.

from standfast import Standfast

app = Standfast("sqlite:///standfast.db")

@app.task(queue="mail", max_attempts=5, timeout=30)
async def send_email(to: str, subject: str) -> str:
    return f"sent {subject} to {to}"

handle = send_email.enqueue("a@example.com", subject="hi")
print(handle.result(timeout=10))       # while `standfast worker MODULE:app` runs
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from standfast.app import Standfast as Standfast
    from standfast.context import Context as Context
    from standfast.context import Life as Life
    from standfast.context import current_context as current_context
    from standfast.durable.files import SavedFile as SavedFile
    from standfast.durable.lock import Lock as Lock
    from standfast.errors import ArgumentsError as ArgumentsError
    from standfast.errors import BackgroundCancelledError as BackgroundCancelledError
    from standfast.errors import BackgroundClosedError as BackgroundClosedError
    from standfast.errors import BackgroundError as BackgroundError
    from standfast.errors import BackgroundFullError as BackgroundFullError
    from standfast.errors import ConfigurationError as ConfigurationError
    from standfast.errors import CursorError as CursorError
    from standfast.errors import JobCancelledError as JobCancelledError
    from standfast.errors import JobDeadError as JobDeadError
    from standfast.errors import JobNotFoundError as JobNotFoundError
    from standfast.errors import JobStateError as JobStateError
    from standfast.errors import KeyTakenError as KeyTakenError
    from standfast.errors import LockError as LockError
    from standfast.errors import LockLostError as LockLostError
    from standfast.errors import LockStateError as LockStateError
    from standfast.errors import LockTimeoutError as LockTimeoutError
    from standfast.errors import LostClaimError as LostClaimError
    from standfast.errors import ResultError as ResultError
    from standfast.errors import ResultExpiredError as ResultExpiredError
    from standfast.errors import ResultTimeoutError as ResultTimeoutError
    from standfast.errors import ScheduleExistsError as ScheduleExistsError
    from standfast.errors import ScheduleNotFoundError as ScheduleNotFoundError
    from standfast.errors import ScheduleUnreadableError as ScheduleUnreadableError
    from standfast.errors import StandfastError as StandfastError
    from standfast.errors import StepChangedError as StepChangedError
    from standfast.errors import StepError as StepError
    from standfast.errors import StoreError as StoreError
    from standfast.errors import StoreUnavailableError as StoreUnavailableError
    from standfast.errors import WaitTimeoutError as WaitTimeoutError
    from standfast.handle import JobHandle as JobHandle
    from standfast.hosts.background.work import Background as Background
    from standfast.hosts.background.work import BackgroundState as BackgroundState
    from standfast.model.alerts import AlertRule as AlertRule
    from standfast.model.alerts import Check as Check
    from standfast.model.alerts import Severity as Severity
    from standfast.model.backoff import Constant as Constant
    from standfast.model.backoff import Custom as Custom
    from standfast.model.backoff import Exponential as Exponential
    from standfast.model.backoff import Linear as Linear
    from standfast.model.backoff import Retries as Retries
    from standfast.model.ids import new_job_id as new_job_id
    from standfast.model.job import Cancellation as Cancellation
    from standfast.model.job import Job as Job
    from standfast.model.job import Progress as Progress
    from standfast.model.outcomes import Cancel as Cancel
    from standfast.model.outcomes import Discard as Discard
    from standfast.model.outcomes import Fail as Fail
    from standfast.model.outcomes import Interrupted as Interrupted
    from standfast.model.outcomes import Retry as Retry
    from standfast.model.outcomes import Snooze as Snooze
    from standfast.model.outcomes import Success as Success
    from standfast.model.secrets import Secret as Secret
    from standfast.model.states import State as State
    from standfast.observe.alerts.channel import AppriseChannel as AppriseChannel
    from standfast.observe.alerts.channel import CommandChannel as CommandChannel
    from standfast.observe.alerts.channel import DeadMan as DeadMan
    from standfast.observe.alerts.channel import WebhookChannel as WebhookChannel
    from standfast.schedules.calendar import Calendar as Calendar
    from standfast.schedules.rules import AnyOf as AnyOf
    from standfast.schedules.rules import At as At
    from standfast.schedules.rules import Cron as Cron
    from standfast.schedules.rules import Every as Every
    from standfast.schedules.windows import Window as Window
    from standfast.task import Task as Task


__version__ = "0.1.0"

_HOMES = {
    "standfast.observe.alerts.channel": ("AppriseChannel", "CommandChannel", "DeadMan", "WebhookChannel"),
    "standfast.app": ("Standfast",),
    "standfast.hosts.background.work": ("Background", "BackgroundState"),
    "standfast.model.secrets": ("Secret",),
    "standfast.context": ("Context", "Life", "current_context"),
    "standfast.model.outcomes": ("Cancel", "Discard", "Fail", "Interrupted", "Retry", "Snooze", "Success"),
    "standfast.model.alerts": ("AlertRule", "Check", "Severity"),
    "standfast.model.backoff": ("Constant", "Custom", "Exponential", "Linear", "Retries"),
    "standfast.model.job": ("Cancellation", "Job", "Progress"),
    "standfast.model.states": ("State",),
    "standfast.durable.files": ("SavedFile",),
    "standfast.errors": (
        "ArgumentsError",
        "BackgroundCancelledError",
        "BackgroundClosedError",
        "BackgroundError",
        "BackgroundFullError",
        "ConfigurationError",
        "CursorError",
        "JobCancelledError",
        "JobDeadError",
        "JobNotFoundError",
        "JobStateError",
        "KeyTakenError",
        "LockError",
        "LockLostError",
        "LockStateError",
        "LockTimeoutError",
        "LostClaimError",
        "ResultError",
        "ResultExpiredError",
        "ResultTimeoutError",
        "ScheduleExistsError",
        "ScheduleNotFoundError",
        "ScheduleUnreadableError",
        "StandfastError",
        "StepChangedError",
        "StepError",
        "StoreError",
        "StoreUnavailableError",
        "WaitTimeoutError",
    ),
    "standfast.handle": ("JobHandle",),
    "standfast.model.ids": ("new_job_id",),
    "standfast.durable.lock": ("Lock",),
    "standfast.schedules.calendar": ("Calendar",),
    "standfast.schedules.rules": ("AnyOf", "At", "Cron", "Every"),
    "standfast.schedules.windows": ("Window",),
    "standfast.task": ("Task",),
}
"""Where the names that people import from here are defined."""

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)  # noqa: PLE0605 - it is a list of names


def __getattr__(name: str) -> Any:
    """Load a public name when it is asked for: commands and supervisors need none and start sooner."""
    if home := _HOME_OF.get(name):
        globals()[name] = getattr(import_module(home), name)
        return globals()[name]
    is_module = find_spec(f"standfast.{name}") is not None  # `from standfast import a_module` asks
    if not is_module and (way := import_module("standfast.model.suggestions").OTHER_IMPORTS.get(name)):
        raise ImportError(f"cannot import name {name!r} from 'standfast'; {way}", name=__name__)
    raise AttributeError(f"module 'standfast' has no attribute '{name}'", name=name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
