"""The verbs of the SQLite store, put together."""

from holdfast.clock import Clock
from holdfast.store.protocol import LeaseClock
from holdfast.store.sqlite.burial_verbs import BurialVerbs
from holdfast.store.sqlite.claim_verbs import ClaimVerbs
from holdfast.store.sqlite.finish_verbs import FinishVerbs
from holdfast.store.sqlite.forgetting_verbs import ForgettingVerbs
from holdfast.store.sqlite.memo_verbs import MemoVerbs
from holdfast.store.sqlite.record_verbs import RecordVerbs
from holdfast.store.sqlite.sql_files import load_statements
from holdfast.store.sqlite.supervision_verbs import SupervisionVerbs
from holdfast.store.sqlite.view_verbs import ViewVerbs


class SqliteStore(
    RecordVerbs, MemoVerbs, ViewVerbs, ClaimVerbs, FinishVerbs, SupervisionVerbs, BurialVerbs, ForgettingVerbs
):
    """Every verb of `Store`, as statements for SQLite."""

    lease_clock = LeaseClock.BOOT

    def __init__(self, clock: Clock, namespace: str | None = None) -> None:
        super().__init__(load_statements(namespace), clock)
