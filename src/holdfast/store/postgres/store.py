"""The verbs of the PostgreSQL store, put together."""

from holdfast.clock import Clock
from holdfast.store.postgres.burial_verbs import BurialVerbs
from holdfast.store.postgres.claim_verbs import ClaimVerbs
from holdfast.store.postgres.finish_verbs import FinishVerbs
from holdfast.store.postgres.forgetting_verbs import ForgettingVerbs
from holdfast.store.postgres.memo_verbs import MemoVerbs
from holdfast.store.postgres.record_verbs import RecordVerbs
from holdfast.store.postgres.sql_files import load_statements
from holdfast.store.postgres.supervision_verbs import SupervisionVerbs
from holdfast.store.postgres.view_verbs import ViewVerbs
from holdfast.store.protocol import LeaseClock


class PostgresStore(
    RecordVerbs, MemoVerbs, ViewVerbs, ClaimVerbs, FinishVerbs, SupervisionVerbs, BurialVerbs, ForgettingVerbs
):
    """Every verb of `Store`, as statements for PostgreSQL. `clock` overrides the server's own time."""

    lease_clock = LeaseClock.SERVER

    def __init__(self, schema: str, clock: Clock | None = None) -> None:
        super().__init__(load_statements(schema), clock)
