"""What long jobs did, item by item and step by step, written by their handlers, beside what the store has of it.

Promises about it are judged here: what was saved is not done again, nothing is left out, little is done twice.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

import msgspec

from standfast.model.job import ClaimRef
from standfast.model.memos import step_name
from standfast.worker.progress import FLUSH_LIMIT


class Trail:
    """Of all jobs of a world."""

    def __init__(self, violate: Callable[[str], None]) -> None:
        self._violate = violate
        self._done: dict[ClaimRef, int] = {}
        self._reached: dict[str, dict[int, int]] = defaultdict(dict)
        """How far each job is by what the store has, and by which fences that was saved."""
        self._steps: dict[str, dict[str, int]] = defaultdict(dict)
        """The steps of each job that the store has, and by which fences they were first saved."""
        self._returned_at: dict[ClaimRef, float] = {}
        self._received: dict[str, dict[int, str | None]] = defaultdict(dict)

    # -- what the store has ----------------------------------------------------------------------------------

    def saved(self, ref: ClaimRef, kept: Mapping[str, bytes]) -> None:
        """See that no cursor goes back; `kept` is what the store has after a save of this claim."""
        for name, body in kept.items():
            if name.partition(":")[0] == "cursor":
                self._saved_cursor(ref, _place(body))
            elif (step := step_name(name)) is not None:
                self._steps[ref.job_id].setdefault(step, ref.fence)

    def _saved_cursor(self, ref: ClaimRef, place: int) -> None:
        reached = self._reached[ref.job_id]
        before = max(reached.values(), default=0)
        if place < before:
            self._violate(f"the cursor of {ref.job_id} went back from {before} to {place}")
        reached[ref.fence] = place

    def ended(self, ref: ClaimRef, now: float) -> None:
        """See that what a handler did is saved when its ending comes, unless the store took too long for that."""
        done = self._done.get(ref)
        if done is None or now - self._returned_at.get(ref, now) >= FLUSH_LIMIT:
            return
        place = self._place_of(ref)
        if done > place:
            self._violate(f"{ref.job_id}:{ref.fence} ended after item {done}, and only {place} are saved")

    # -- what handlers did -----------------------------------------------------------------------------------

    def did(self, ref: ClaimRef, item: int, every: float) -> None:
        """See that an item is the next one, and that not too many before it are unsaved."""
        begin = self._place_before(ref)
        if ref not in self._done and item in self._reached[ref.job_id].values():
            begin = item  # it has lost the job, and was told late what the next claim has saved
        if item < begin:
            self._violate(f"{ref.job_id}:{ref.fence} did item {item} again, and {begin} were saved")
        elif item != self._done.get(ref, begin):
            self._violate(f"{ref.job_id}:{ref.fence} did item {item} after {self._done.get(ref, begin)} were done")
        self._done[ref] = item + 1
        unsaved = item + 1 - self._place_of(ref)
        if unsaved > every:
            self._violate(f"{ref.job_id}:{ref.fence} has {unsaved} unsaved items, and may have {every}")

    def flushed(self, ref: ClaimRef) -> None:
        """See that a handler which was told that its cursor is saved was told the truth."""
        if (place := self._place_of(ref)) < self._done[ref]:
            self._violate(f"{ref.job_id}:{ref.fence} flushed {self._done[ref]} items, and {place} are saved")

    def returned(self, ref: ClaimRef, now: float) -> None:
        """Note the last line of a handler."""
        self._returned_at[ref] = now

    def step_begins(self, ref: ClaimRef, name: str) -> None:
        """See that a step is not saved yet, by this claim or one before."""
        by = self._steps[ref.job_id].get(name)
        if by is not None and by <= ref.fence:
            self._violate(f"{ref.job_id}:{ref.fence} runs step {name} again, which was saved under fence {by}")

    def step_told(self, ref: ClaimRef, name: str) -> None:
        """See that a step is saved whose result the handler has."""
        if name not in self._steps[ref.job_id]:
            self._violate(f"{ref.job_id}:{ref.fence} goes on after step {name}, which is not saved")

    def received(self, job_id: str, number: int, token: str | None) -> None:
        """See that a wait ends in one way for all attempts, and that no signal ends two; None is a timeout."""
        received = self._received[job_id]
        if received.setdefault(number, token) != token:
            self._violate(f"wait {number} of {job_id} got {token}, and {received[number]} before")
        if token is not None and list(received.values()).count(token) > 1:
            self._violate(f"{job_id} received {token} twice")

    # -- what came of it -------------------------------------------------------------------------------------

    def check_items(self, job_id: str, items: int) -> None:
        """See that a job which is completed has done all its items."""
        done = max((done for ref, done in self._done.items() if ref.job_id == job_id), default=0)
        if done != items:
            self._violate(f"{job_id} completed with {done} of its {items} items done")

    def check_signals(self, job_id: str, sent: Iterable[str]) -> None:
        """See that a completed job, which had waited however long it took, got its signals in their order."""
        received = self._received[job_id]
        got = [received[number] for number in sorted(received)]
        if got != list(sent)[: len(got)]:
            self._violate(f"{job_id} received {got}, and was sent {sent}")

    def _place_before(self, ref: ClaimRef) -> int:
        """Return how far the job was by what earlier claims had saved."""
        saved = self._reached[ref.job_id].items()
        return max((place for fence, place in saved if fence < ref.fence), default=0)

    def _place_of(self, ref: ClaimRef) -> int:
        """Return how far the job is by what this claim and earlier ones have saved."""
        saved = self._reached[ref.job_id].items()
        return max((place for fence, place in saved if fence <= ref.fence), default=0)


def _place(body: bytes) -> int:
    """Return how many items are done by what a memo says, of `ctx.resume` or of the handler's own."""
    cursor = msgspec.json.decode(body)
    return int(cursor["done"] if "by" in cursor else cursor["value"])
