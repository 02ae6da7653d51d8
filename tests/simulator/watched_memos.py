"""What the watcher sees of memos and signals."""

from collections.abc import Sequence

from simulator.watching import Snapshot, Watching
from standfast.model.job import Verdict
from standfast.model.memos import Save, signal_memo
from standfast.model.states import FINAL
from standfast.stores.memory.rows import MemoRow
from standfast.stores.verb import Verb


class WatchedMemos(Watching):
    """The store, watched where long jobs write and people send signals."""

    def save(self, worker: str, saves: Sequence[Save]) -> Verb[tuple[Verdict, ...]]:
        """Watch: only the valid claim writes, and what a cursor says never goes back."""

        def check(before: Snapshot, verdicts: tuple[Verdict, ...]) -> None:
            for save, verdict in zip(saves, verdicts, strict=True):
                alone = sum(each.ref.job_id == save.ref.job_id for each in saves) == 1
                self._check_save(worker, save, verdict, before, alone=alone)

        return self._watch(super().save(worker, saves), check, {save.ref.job_id for save in saves})

    def _check_save(self, worker: str, save: Save, verdict: Verdict, before: Snapshot, *, alone: bool) -> None:
        """Check one save of a call; `alone` there with its job, which an earlier claim may write to besides."""
        ref, names = save.ref, [memo.name for memo in save.memos]
        self._world.say(f"save {save.number} {' '.join(names)} {ref.job_id}:{ref.fence} of {worker[:4]}: {verdict}")
        seen, after = before[ref.job_id], self.look(ref.job_id)
        valid = seen.is_claim(worker, ref)
        if (verdict is Verdict.ACCEPTED) != valid or (alone and not valid and after != seen):
            self._world.violate(f"save of {ref.job_id}:{ref.fence} was {verdict}, valid {valid}")
        if valid:
            self._world.trail.saved(ref, {name: after.memos[name].body for name in names})

    def signal(self, job_id: str, name: str, token: str, body: bytes) -> Verb[bool]:
        """Watch: a signal is kept for every job that is not over; sent again it changes no memo."""

        def check(before: Snapshot, sent: bool) -> None:
            seen, after = before[job_id], self.look(job_id)
            self._world.say(f"signal {token} to {job_id}: {sent}, {after.state} after {seen.state}")
            if sent is (seen.state in FINAL):
                self._world.violate(f"signal to {job_id}, which was {seen.state}, was taken: {sent}")
            came = {signal_memo(name, token): MemoRow(body)} if sent else {}
            if after.memos != {**came, **seen.memos}:
                self._world.violate(f"signal {token} to {job_id} changed its memos to {list(after.memos)}")

        return self._watch(super().signal(job_id, name, token, body), check, {job_id})
