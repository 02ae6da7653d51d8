"""What a passive store can be asked, by kind: each verb that it has stands here, and so has its price."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class Kind(StrEnum):
    """What a call is, as far as its price goes."""

    LIST = "list"
    """It finds jobs, whether or not there are any."""
    READ = "read"
    """It looks at jobs that are known by their ids."""
    CREATE = "create"
    WRITE = "write"
    """It ends claims or marks them, fenced: those that are refused have their price."""
    MEMBERSHIP = "membership"
    """It keeps the fleet together and the store tidy, and finds no jobs."""


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "claim": Kind.LIST,
        **dict.fromkeys(("get", "glance", "history", "memos"), Kind.READ),
        **dict.fromkeys(("enqueue", "signal"), Kind.CREATE),
        **dict.fromkeys(("start", "progress", "save", "finish"), Kind.WRITE),
        **dict.fromkeys(
            ("register", "beat", "reconcile", "condemn", "bury", "forget_results", "forget_jobs", "forget_dead"),
            Kind.MEMBERSHIP,
        ),
        **dict.fromkeys(("records", "due_records", "change_records"), Kind.MEMBERSHIP),
    }
)
"""Left out is whatever lists or counts jobs by another way than a claim, or is for people."""
