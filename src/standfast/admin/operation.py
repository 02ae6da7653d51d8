"""An operation: what it is, who may use it, and how it fails.

An operation: one thing that can be seen or done, by whatever way it is asked for.

    @reads("jobs.show", "/jobs/{id}")
    async def show_job(desk: OperationContext, asked: WhichJob) -> JobSeen: ...

    @acts("jobs.retry", "/jobs/{id}/retry", Role.OPERATOR)
    async def retry_job(desk: OperationContext, asked: WhichJob) -> JobDone: ...

What is asked and what is answered are structs: the JSON API and its document are made from them.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from http import HTTPStatus
from inspect import getdoc
from types import MappingProxyType
from typing import Any, Generic, TypeVar, get_type_hints

import msgspec

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
    TaskNotFoundError,
    ValueNotStoredError,
)

# Somebody who came in, and what they may do.

LONGEST_NAME = 254
"""Characters of a name: an address of mail has no more."""


class Role(IntEnum):
    """What somebody may do; each may also do what those before it may."""

    VIEWER = 1
    """Look."""
    OPERATOR = 2
    """Retry, cancel, pause, trigger and the like: what can be done again, or undone."""
    ADMIN = 3
    """Also what takes something away for good, or concerns everybody: discard, edit, drain, release a lock."""


ROLES = MappingProxyType({role.name.lower(): role for role in Role})
"""Roles by the names that people write."""


class User(msgspec.Struct, frozen=True):
    """Somebody who came in. `grants` are names of operations that they may use besides those of their role."""

    name: str
    role: Role = Role.VIEWER
    grants: frozenset[str] = frozenset()

    def may(self, operation: str, role: Role) -> bool:
        """Tell whether they may use an operation that is for this role."""
        return self.role >= role or operation in self.grants


def what_is_wrong(user: User) -> str | None:
    """Return what of a user that others have made cannot be so, None where all is well.

    Nothing looks at types when one is made: an id in place of a name would fail where it is written down, after
    what was to be written down is done.
    """
    if type(user.name) is not str:
        return f"its name is of type {type(user.name).__qualname__}, and must be a str"
    if not user.name.strip() or not user.name.isprintable() or len(user.name) > LONGEST_NAME:
        return f"its name is empty, longer than {LONGEST_NAME} characters, or cannot be printed"
    if not isinstance(user.role, Role):
        return f"its role is of type {type(user.role).__qualname__}, and must be a Role"
    if not isinstance(user.grants, frozenset) or not all(type(grant) is str for grant in user.grants):
        return "its grants must be a frozenset of names of operations"
    return None


Asked = TypeVar("Asked", bound=msgspec.Struct)
Answer = TypeVar("Answer", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True, eq=False)
class Operation(Generic[Asked, Answer]):
    """One thing that can be seen, or, where it `changes` something, done.

    `path` is the one below /api/v1; it may name fields of what is asked. What is asked is frozen, and hashable
    where nothing changes: those who ask the same at the same moment share one answer, if it can be `shared`.
    """

    name: str
    path: str
    role: Role
    changes: bool
    about: str
    asked: type[Asked]
    answer: type[Answer]
    run: Callable[[Any, Asked], Awaitable[Answer]]
    shared: bool = True


Function = Callable[[Any, Asked], Awaitable[Answer]]
"""What it does, given a `OperationContext`."""


def reads(
    name: str, path: str, role: Role = Role.VIEWER, *, shared: bool = True
) -> Callable[[Function[Asked, Answer]], Operation[Asked, Answer]]:
    """Make a function an operation that changes nothing."""
    return lambda run: _operation(name, path, role, run, changes=False, shared=shared)


def acts(name: str, path: str, role: Role) -> Callable[[Function[Asked, Answer]], Operation[Asked, Answer]]:
    """Make a function an operation that changes something; whoever uses it is written down."""
    return lambda run: _operation(name, path, role, run, changes=True)


def _operation(
    name: str, path: str, role: Role, run: Function[Asked, Answer], *, changes: bool, shared: bool = False
) -> Operation[Asked, Answer]:
    hints = get_type_hints(run)
    return Operation(name, path, role, changes, getdoc(run) or "", hints["asked"], hints["return"], run, shared)


# What can be wrong with what somebody asks of the dashboard, besides the errors of Standfast itself.


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
        TaskNotFoundError: HTTPStatus.NOT_FOUND,
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
