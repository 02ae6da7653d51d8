"""Every error that Standfast raises, in one tree.

StandfastError
│   your code
├── ConfigurationError            a setting, URL or declaration is wrong
│   └── UnknownTaskError          a name that no task was registered under
├── ArgumentsError                a task was given arguments that it cannot take
│   the store
├── StoreError                    the store refused or failed
│   ├── StoreUnavailableError ↻   locked, away, timed out
│   ├── StoreFullError ↻          no room left to write
│   ├── ValueNotStoredError       a value that this store cannot keep
│   └── SchemaError               tables of another release
│   jobs, keys, schedules, incidents, alerts
├── JobNotFoundError              no job has that id
├── JobStateError                 the job is in a state that does not allow this
├── PayloadError                  a stored payload or result cannot be read
├── KeyTakenError ↻               another job of the task has this key
├── ScheduleNotFoundError         no schedule has that name
├── ScheduleExistsError           a schedule has that name already
├── ScheduleUnreadableError       a stored schedule that means nothing here
├── IncidentNotFoundError         no incident has that id, or not that part
├── TaskNotFoundError             no worker has published a task of that name
├── AlertNotFoundError            no alert or silence has that id
├── DeliveryError ↻               people could not be told through a channel
│   locks
├── LockError                     a lock cannot be had, kept or given back
│   ├── LockTimeoutError ↻        it did not become free in the time given
│   ├── LockLostError             it was held, and may be another's by now
│   └── LockStateError            it is held already, or not held, by who asks
│   in the background
├── BackgroundError               work in the background cannot begin, or not be waited for
│   ├── BackgroundFullError ↻     as much runs as may, and it may not wait
│   ├── BackgroundClosedError     the app was closed
│   └── BackgroundCancelledError  it was cancelled: there is no result
│   inside a worker
├── ResultEncodingError           a handler returned what cannot be stored
├── CursorError                   a cursor that cannot be saved, or not be used
├── LostClaimError                this attempt no longer owns its job
├── StepError                     a step or a wait that cannot be kept; the job is dead
│   └── StepChangedError          the steps that were done do not fit those of the code
├── WaitTimeoutError              no signal came in the time given
├── WorkerBuriedError             this worker was declared dead; its claims are gone
│   results
└── ResultError                   there is no result to give
    ├── ResultTimeoutError ↻      not finished in the time given
    ├── ResultExpiredError        it was kept for a time, which is over
    ├── JobDeadError              the job failed for good
    └── JobCancelledError         the job was cancelled

↻: the same call may succeed later. A message names what is wrong and what to do about it.

Four exceptions are outside the tree (all but the last are in model/outcomes.py):
- `Outcome`: a handler raises it to say how its attempt ends; no `except Exception` may catch it;
- `Interrupted`: it ends an attempt that is to stop, likewise;
- `Suspended`: it ends an attempt whose job waits for a time or a signal, likewise;
- `RemoteTraceback`: never raised; as the cause of a JobDeadError it shows what was raised in a worker.
"""


class StandfastError(Exception):
    """The root of all errors raised on purpose."""


class ConfigurationError(StandfastError):
    """A setting, a URL or a task declaration is wrong: `in_code`, or else in a file or a variable."""

    in_code = True


class UnknownTaskError(ConfigurationError):
    """No task of that name is registered."""


class ArgumentsError(StandfastError):
    """Arguments do not fit the task's parameters; nothing was enqueued."""


class StoreError(StandfastError):
    """The store refused or failed. `in_doubt`: what was asked may be stored all the same, as no answer came."""

    in_doubt = False


class StoreUnavailableError(StoreError):
    """The store cannot be reached now; the same call may succeed later."""


class StoreFullError(StoreError):
    """The store has no room left; nothing of the call was written."""


class ValueNotStoredError(StoreError):
    """The store cannot keep a value of the call; trying again does not help."""


class SchemaError(StoreError):
    """The store's tables belong to another release."""


class JobNotFoundError(StandfastError):
    """No job has that id."""


class JobStateError(StandfastError):
    """The job's state does not allow what was asked."""


class PayloadError(StandfastError):
    """What is stored cannot be read: written by another version of the task, or damaged."""


class KeyTakenError(StandfastError):
    """Another job of the same task has this key; nothing was written."""


class ScheduleNotFoundError(StandfastError):
    """No schedule has that name."""


class ScheduleExistsError(StandfastError):
    """There is a schedule of that name already; nothing was written."""


class ScheduleUnreadableError(StandfastError):
    """What is stored of a schedule means nothing to this release, or on this machine."""


class IncidentNotFoundError(StandfastError):
    """No incident has that id, or it has no such part."""


class TaskNotFoundError(StandfastError):
    """No worker has published a task of that name."""


class AlertNotFoundError(StandfastError):
    """No alert or silence has that id, or several have."""


class DeliveryError(StandfastError):
    """A notice could not be sent through a channel; `retry` tells whether it is of use to try again."""

    def __init__(self, message: str, *, retry: bool = True) -> None:
        super().__init__(message)
        self.retry = retry


class LockError(StandfastError):
    """A lock cannot be had, kept or given back."""


class LockTimeoutError(LockError, TimeoutError):
    """The lock did not become free in the time given."""


class LockLostError(LockError):
    """The lock could not be renewed in time, or somebody released it: another may hold it now."""


class LockStateError(LockError):
    """The lock is held already by this object, or it is not held by who gives it back."""


class BackgroundError(StandfastError):
    """Work in the background cannot begin, or cannot be waited for like this."""


class BackgroundFullError(BackgroundError):
    """As much work runs in the background as may, and this may not wait for its turn; it was not begun."""


class BackgroundClosedError(BackgroundError):
    """The app was closed: nothing begins in its background any more."""


class BackgroundCancelledError(BackgroundError):
    """Work in the background was cancelled, or never began: it has no result."""


class ResultEncodingError(StandfastError):
    """What a handler returned cannot be stored as JSON, would be read back changed, or is too large."""


class CursorError(StandfastError):
    """How far a job got cannot be saved, or what was saved does not fit the code."""


class LostClaimError(StandfastError):
    """The claim is no longer valid: another worker may have the job."""


class StepError(StandfastError):
    """A step or a wait of a handler cannot be kept; another attempt would not help, so the job is dead."""


class StepChangedError(StepError):
    """The steps that the job has done do not fit those that the code has now; nothing was run."""


class WaitTimeoutError(StandfastError, TimeoutError):
    """No signal came in the time that a handler gave it."""


class WorkerBuriedError(StandfastError):
    """The worker was declared dead, and its claims were given to others."""


class ResultError(StandfastError):
    """There is no result to give."""


class ResultTimeoutError(ResultError, TimeoutError):
    """The job did not finish in the time given; it goes on."""


class ResultExpiredError(ResultError):
    """The job completed, and its result was kept no longer than its task says."""


class JobDeadError(ResultError):
    """The job failed for good and waits among the dead letters.

    `failure_type` and `failure_message` are of what killed it, an exception's name with its module and its words;
    `remote_traceback` is where that was raised, as text, "" where there is none. It is also the cause of this
    error, so that a printed traceback shows both.
    """

    def __init__(
        self,
        message: str,
        *,
        failure_type: str | None = None,
        failure_message: str | None = None,
        remote_traceback: str = "",
    ) -> None:
        super().__init__(message)
        self.failure_type = failure_type
        self.failure_message = failure_message
        self.remote_traceback = remote_traceback


class JobCancelledError(ResultError):
    """The job was cancelled before it completed; `reason` says why."""

    def __init__(self, message: str, *, reason: str | None = None) -> None:
        super().__init__(message)
        self.reason = reason


class RemoteTraceback(Exception):  # noqa: N818 - it is never raised, only shown
    """What a handler raised in a worker, as text: the cause of a JobDeadError. It is never raised itself."""

    def __str__(self) -> str:
        return f"in the worker\n{self.args[0]}"
