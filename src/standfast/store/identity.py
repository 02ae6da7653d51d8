"""Which store this is: a random id, made once in the store itself. Two stores of the same URL have different ones.

A server that was emptied, or that another one has taken the place of, has another id, or none.
"""

import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from standfast.core.record import Change, Kind, Record, read_body
from standfast.errors import StoreError
from standfast.store.backend import Backend
from standfast.store.errand import Verbs, arun_errand, errand, run_errand
from standfast.store.protocol import Store
from standfast.store.verb import Verb

_NAME = "store"


class _Body(msgspec.Struct, frozen=True):
    id: str


@errand
def find_identity(verbs: Store) -> Verbs[str | None]:
    """Return the id of the store; None where it has none."""
    return (yield from _read(verbs))


@errand
def know_identity(verbs: Store) -> Verbs[str]:
    """Return the id of the store, and make one where it has none."""
    while (known := (yield from _read(verbs))) is None:
        made = secrets.token_hex(8)
        yield verbs.change_records([Change(Kind.STORE, _NAME, 0, made, msgspec.json.encode(_Body(made)))])
    return known


def identity_of(backend: Backend) -> str:
    """Return the id of a store, blocking."""
    return run_errand(backend.run, know_identity(backend.verbs))


def _read(verbs: Store) -> Verbs[str | None]:
    records: tuple[Record, ...] = yield verbs.records(Kind.STORE, (_NAME,))
    if not records:
        return None
    body = read_body(records[0], _Body)
    if body is None:
        raise StoreError("the record that says which store this is cannot be read: restore it, or the store")
    return body.id


class KnownStore:
    """The store as one process has met it."""

    def __init__(self, run: Callable[[Verb[Any]], Awaitable[Any]], verbs: Store) -> None:
        self._run = run
        self._verbs = verbs
        self.id: str | None = None
        """None before it was met."""

    async def meet(self) -> str:
        """Return the id that the store has now, and remember it; one that has none gets one."""
        self.id = await arun_errand(self._run, know_identity(self._verbs))
        return self.id

    async def is_another(self, than: str | None = None) -> bool:
        """Tell whether the store is not the one that was met, or the one of this id."""
        known = than or self.id
        return known is not None and await arun_errand(self._run, find_identity(self._verbs)) != known
