"""The verbs of the PostgreSQL store, put together."""

from standfast.clock import Clock
from standfast.store.postgres.burial_verbs import BurialVerbs
from standfast.store.postgres.claim_verbs import ClaimVerbs
from standfast.store.postgres.finish_verbs import FinishVerbs
from standfast.store.postgres.forgetting_verbs import ForgettingVerbs
from standfast.store.postgres.memo_verbs import MemoVerbs
from standfast.store.postgres.record_verbs import RecordVerbs
from standfast.store.postgres.sql_files import load_statements
from standfast.store.postgres.supervision_verbs import SupervisionVerbs
from standfast.store.postgres.view_verbs import ViewVerbs
from standfast.store.protocol import LeaseClock


class PostgresStore(
    RecordVerbs, MemoVerbs, ViewVerbs, ClaimVerbs, FinishVerbs, SupervisionVerbs, BurialVerbs, ForgettingVerbs
):
    """Every verb of `Store`, as statements for PostgreSQL. `clock` overrides the server's own time."""

    lease_clock = LeaseClock.SERVER

    def __init__(self, schema: str, clock: Clock | None = None) -> None:
        super().__init__(load_statements(schema), clock)
