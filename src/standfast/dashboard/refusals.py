"""What can be wrong with what somebody asks of the dashboard, besides the errors of Standfast itself."""

from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType

from standfast.errors import (
    AlertNotFoundError,
    ArgumentsError,
    ConfigurationError,
    IncidentNotFoundError,
    JobNotFoundError,
    JobStateError,
    KeyTakenError,
    LockStateError,
    PayloadError,
    ScheduleExistsError,
    ScheduleNotFoundError,
    ScheduleUnreadableError,
    StandfastError,
    StoreError,
    ValueNotStoredError,
)


class NotAllowedError(StandfastError):
    """They may not do this: their role, or a dashboard that only shows, does not permit it."""


class NotThereError(StandfastError):
    """What is asked for does not exist."""


class NotConfirmedError(StandfastError):
    """What is confirmed is not what is meant: it has changed, or somebody else has counted."""


class WrongRequestError(StandfastError):
    """It cannot be meant: a field is missing, or says what it cannot."""


STATUS: Mapping[type, HTTPStatus] = MappingProxyType(
    {
        NotAllowedError: HTTPStatus.FORBIDDEN,
        NotThereError: HTTPStatus.NOT_FOUND,
        JobNotFoundError: HTTPStatus.NOT_FOUND,
        ScheduleNotFoundError: HTTPStatus.NOT_FOUND,
        IncidentNotFoundError: HTTPStatus.NOT_FOUND,
        AlertNotFoundError: HTTPStatus.NOT_FOUND,
        JobStateError: HTTPStatus.CONFLICT,
        KeyTakenError: HTTPStatus.CONFLICT,
        LockStateError: HTTPStatus.CONFLICT,
        ScheduleExistsError: HTTPStatus.CONFLICT,
        ScheduleUnreadableError: HTTPStatus.CONFLICT,
        NotConfirmedError: HTTPStatus.CONFLICT,
        WrongRequestError: HTTPStatus.UNPROCESSABLE_ENTITY,
        ArgumentsError: HTTPStatus.UNPROCESSABLE_ENTITY,
        ConfigurationError: HTTPStatus.UNPROCESSABLE_ENTITY,
        PayloadError: HTTPStatus.UNPROCESSABLE_ENTITY,
        ValueNotStoredError: HTTPStatus.UNPROCESSABLE_ENTITY,
        StoreError: HTTPStatus.SERVICE_UNAVAILABLE,
    }
)
"""With which status an error is answered; the nearest of its classes counts, and what is not here is our fault."""


def status_of(error: StandfastError) -> HTTPStatus:
    """Return the status with which an error is answered."""
    found = (STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    return next(found, HTTPStatus.INTERNAL_SERVER_ERROR)
