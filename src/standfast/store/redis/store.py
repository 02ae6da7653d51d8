"""The verbs of the Redis store, put together."""

from standfast.store.protocol import LeaseClock
from standfast.store.redis.burial_verbs import BurialVerbs
from standfast.store.redis.claim_verbs import ClaimVerbs
from standfast.store.redis.client_verbs import ClientVerbs
from standfast.store.redis.enqueue_verbs import EnqueueVerbs
from standfast.store.redis.finish_verbs import FinishVerbs
from standfast.store.redis.record_verbs import RecordVerbs
from standfast.store.redis.supervision_verbs import SupervisionVerbs
from standfast.store.redis.view_verbs import ViewVerbs


class RedisStore(
    EnqueueVerbs, ClientVerbs, ViewVerbs, RecordVerbs, ClaimVerbs, FinishVerbs, SupervisionVerbs, BurialVerbs
):
    """Every verb of `Store`, as scripts for Redis."""

    lease_clock = LeaseClock.SERVER
