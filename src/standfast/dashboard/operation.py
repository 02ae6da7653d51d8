"""An operation: one thing that can be seen or done, by whatever way it is asked for.

    @reads("jobs.show", "/jobs/{id}")
    async def show_job(desk: Desk, asked: WhichJob) -> JobSeen: ...

    @acts("jobs.retry", "/jobs/{id}/retry", Role.OPERATOR)
    async def retry_job(desk: Desk, asked: WhichJob) -> JobActed: ...

What is asked and what is answered are structs: the JSON API and its document are made from them.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import getdoc
from typing import Any, Generic, TypeVar, get_type_hints

import msgspec

from standfast.dashboard.access.user import Role

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
"""What it does, given a `Desk`."""


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
