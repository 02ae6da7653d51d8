"""Which queues a worker serves, and how it shares itself among them."""

import re
from dataclasses import dataclass

from standfast.errors import ConfigurationError
from standfast.policy.problems import queue_problems

Named = tuple[tuple[str, int | None], ...]
"""Queues as they were named, each with its weight if it has one."""


@dataclass(frozen=True, slots=True)
class ServedQueues:
    """These queues and no others: by their weights, one for each; or, without weights, strictly in this order."""

    names: tuple[str, ...]
    weights: tuple[int, ...] | None = None

    @classmethod
    def by_weight(cls, named: Named) -> "ServedQueues":
        """Return these queues by their weights, 1 where none is given."""
        return cls(tuple(name for name, _ in named), tuple(weight or 1 for _, weight in named))


def read_queues(value: str, example: str) -> Named:
    """Return the queues that a text names, as in `critical=6,mail=3`. Raises ConfigurationError with an example."""
    named: dict[str, int | None] = {}
    for part in value.split(","):
        name, equals, weight = (word.strip() for word in part.partition("="))
        if not name:
            raise ConfigurationError(f"'{value}' has an empty name in it; write e.g. {example}")
        for problem in queue_problems(name):
            raise ConfigurationError(f"{problem}; no job can be there")
        if equals and not re.fullmatch(r"0*[1-9][0-9]{0,5}", weight):
            raise ConfigurationError(
                f"the weight of '{name}' must be a whole number from 1 to 999999, not '{weight}'; write e.g."
                f" {example}"
            )
        if name in named:
            raise ConfigurationError(f"'{value}' names '{name}' twice; name each queue once")
        named[name] = int(weight) if equals else None
    return tuple(named.items())
