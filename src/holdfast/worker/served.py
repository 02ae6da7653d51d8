"""Which queues a worker serves, and how it shares itself among them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServedQueues:
    """These queues and no others: by their weights, one for each; or, without weights, strictly in this order."""

    names: tuple[str, ...]
    weights: tuple[int, ...] | None = None
