"""The verbs of the SQLite store, put together."""

from standfast.clock import Clock
from standfast.store.protocol import LeaseClock
from standfast.store.sqlite.burial_verbs import BurialVerbs
from standfast.store.sqlite.claim_verbs import ClaimVerbs
from standfast.store.sqlite.finish_verbs import FinishVerbs
from standfast.store.sqlite.forgetting_verbs import ForgettingVerbs
from standfast.store.sqlite.memo_verbs import MemoVerbs
from standfast.store.sqlite.record_verbs import RecordVerbs
from standfast.store.sqlite.sql_files import load_statements
from standfast.store.sqlite.supervision_verbs import SupervisionVerbs
from standfast.store.sqlite.view_verbs import ViewVerbs


class SqliteStore(
    RecordVerbs, MemoVerbs, ViewVerbs, ClaimVerbs, FinishVerbs, SupervisionVerbs, BurialVerbs, ForgettingVerbs
):
    """Every verb of `Store`, as statements for SQLite."""

    lease_clock = LeaseClock.BOOT

    def __init__(self, clock: Clock, namespace: str | None = None) -> None:
        super().__init__(load_statements(namespace), clock)
