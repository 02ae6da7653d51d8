"""The verbs of the Redis store, put together."""

from holdfast.store.protocol import LeaseClock
from holdfast.store.redis.burial_verbs import BurialVerbs
from holdfast.store.redis.claim_verbs import ClaimVerbs
from holdfast.store.redis.client_verbs import ClientVerbs
from holdfast.store.redis.enqueue_verbs import EnqueueVerbs
from holdfast.store.redis.finish_verbs import FinishVerbs
from holdfast.store.redis.record_verbs import RecordVerbs
from holdfast.store.redis.supervision_verbs import SupervisionVerbs
from holdfast.store.redis.view_verbs import ViewVerbs


class RedisStore(
    EnqueueVerbs, ClientVerbs, ViewVerbs, RecordVerbs, ClaimVerbs, FinishVerbs, SupervisionVerbs, BurialVerbs
):
    """Every verb of `Store`, as scripts for Redis."""

    lease_clock = LeaseClock.SERVER
