"""What the handlers of the world did, written by themselves: the evidence that no store can talk away."""

from dataclasses import dataclass, field

from standfast.model.job import ClaimRef


@dataclass(slots=True)
class Ledger:
    """Who runs what, and when each job first started."""

    running: set[tuple[str, ClaimRef]] = field(default_factory=set)
    starts: dict[str, list[tuple[float, str, int]]] = field(default_factory=dict)
    beside: dict[str, int] = field(default_factory=dict)
    """How many others ran at its worker when a job first started."""

    def started(self, at: float, worker: str, ref: ClaimRef) -> None:
        """Note the first line of a handler."""
        self.beside.setdefault(ref.job_id, sum(who == worker for who, _ in self.running))
        self.running.add((worker, ref))
        self.starts.setdefault(ref.job_id, []).append((at, worker, ref.fence))

    def has_started(self, worker: str, ref: ClaimRef) -> bool:
        """Tell whether a handler began under this claim."""
        runs = self.starts.get(ref.job_id, ())
        return any((who, fence) == (worker, ref.fence) for _, who, fence in runs)

    def returned(self, worker: str, ref: ClaimRef) -> None:
        """Note the last line of a handler; a killed one never gets there."""
        self.running.discard((worker, ref))
