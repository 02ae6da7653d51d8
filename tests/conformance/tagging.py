"""What a caller wrote on a job: tags, metadata and key, and finding jobs by them."""

from typing import Any

import pytest

from conformance.harness import Harness
from standfast.model.job import Failure
from standfast.model.states import Move, State
from standfast.stores.values import JobFilter


def _found(harness: Harness, **conditions: Any) -> list[str]:
    """Return the ids of the jobs that are listed, oldest first."""
    jobs = harness.run(harness.verbs.list_jobs(JobFilter(**conditions))).jobs
    return [job.id for job in jobs[::-1]]


def _fail(harness: Harness, message: str) -> str:
    placed = harness.place(State.RUNNING)
    harness.finish(placed.worker, placed.ref, Move.DIE, failure=Failure("ValueError", message))
    return placed.job_id


class Tagging:
    """Labels are kept as they were given, and each finds its jobs."""

    def test_labels_are_kept(self, harness: Harness) -> None:
        """Tags in their order and metadata in any characters are shown again; metadata goes to the worker."""
        tags, metadata = ("nightly", "b", "a ☂", 'qu"ote'), {"user": "42", "Straße": "it's ☂ %_\\", "empty": ""}
        job_id = harness.enqueue(tags=tags, metadata=metadata)
        job = harness.job(job_id)
        assert (job.tags, dict(job.metadata)) == (tags, metadata)
        (claim,) = harness.claim(harness.register())
        assert dict(claim.metadata) == metadata

    def test_most_jobs_have_none(self, harness: Harness) -> None:
        """Without labels there is nothing to show."""
        job = harness.job(harness.enqueue())
        assert (job.tags, dict(job.metadata), job.key) == ((), {}, None)
        assert dict(harness.claim(harness.register())[0].metadata) == {}

    def test_labels_last(self, harness: Harness) -> None:
        """A job that was tried and completed still tells its labels, at each claim too."""
        placed = harness.place(State.RUNNING, tags=("t",), metadata={"a": "1"}, key="k")
        harness.finish(placed.worker, placed.ref, Move.RETRY)
        (claim,) = harness.claim(placed.worker)
        assert dict(claim.metadata) == {"a": "1"}
        harness.finish(placed.worker, claim.ref, Move.COMPLETE)
        job = harness.job(placed.job_id)
        assert (job.tags, dict(job.metadata), job.key) == (("t",), {"a": "1"}, "k")

    def test_find_by_tags(self, harness: Harness) -> None:
        """Every tag asked for must be there, whole and in its case of letters."""
        both = harness.enqueue(tags=("red", "blue"))
        red = harness.enqueue(tags=("red",))
        harness.enqueue(tags=("reddish", "Red", 're"d', "r%d"))
        harness.enqueue()
        assert _found(harness, tags=("red",)) == [both, red]
        assert _found(harness, tags=("blue", "red")) == [both]
        assert _found(harness, tags=("re",)) == []
        assert _found(harness, tags=("r_d",)) == []

    def test_find_by_metadata(self, harness: Harness) -> None:
        """Every pair asked for must be there, name and value."""
        both = harness.enqueue(metadata={"user": "42", "a.b": "x"})
        user = harness.enqueue(metadata={"user": "42"})
        harness.enqueue(metadata={"user": "421"})
        harness.enqueue(metadata={"other": "42"})
        harness.enqueue(metadata={"a": "x", "b": "x"})
        harness.enqueue()
        assert _found(harness, metadata={"user": "42"}) == [both, user]
        assert _found(harness, metadata={"a.b": "x", "user": "42"}) == [both]
        assert _found(harness, metadata={"user": "%"}) == []

    @pytest.mark.parametrize("name", ['quo"te', "back\\slash", "$", "[0]", "", "a.b[1]", "☂", "it's"])
    def test_find_by_an_odd_name(self, harness: Harness, name: str) -> None:
        """No character in a name or value means anything but itself."""
        wanted = harness.enqueue(metadata={name: name}, tags=(name,), key=name or None)
        harness.enqueue(metadata={"other": name}, tags=("other",), key="other")
        assert _found(harness, metadata={name: name}) == [wanted]
        assert _found(harness, tags=(name,)) == [wanted]

    def test_find_by_key(self, harness: Harness) -> None:
        """Every job that was enqueued with the key is found, of any task and in any state."""
        done = harness.place(State.COMPLETED, key="k").job_id
        waiting = harness.enqueue(key="k")
        other_task = harness.enqueue(key="k", task="other")
        harness.enqueue(key="kk")
        harness.enqueue()
        assert _found(harness, key="k") == [done, waiting, other_task]
        assert _found(harness, key="k", task="other") == [other_task]

    def test_find_by_error(self, harness: Harness) -> None:
        """A part of the last error finds its job in any case of letters; signs mean only themselves."""
        refused = _fail(harness, "Connection REFUSED by host_1")
        percent = _fail(harness, "disk 100% full")
        harness.enqueue()
        assert _found(harness, error="connection refused") == [refused]
        assert _found(harness, error="valueerror: ") == [refused, percent]
        assert _found(harness, error="0% F") == [percent]
        assert _found(harness, error="host%1") == []
        assert _found(harness, error="full_") == []

    def test_conditions_and_pages_hold_together(self, harness: Harness) -> None:
        """All conditions must hold, and pages of what was found follow each other."""
        ids = [
            harness.enqueue(tags=("t",), metadata={"n": "1"}, queue="q" if number % 2 else "r")
            for number in range(6)
        ]
        harness.enqueue(tags=("t",), queue="q")
        harness.enqueue(metadata={"n": "1"}, queue="q")
        wanted = [ids[5], ids[3], ids[1]]
        where: dict[str, Any] = {"tags": ("t",), "metadata": {"n": "1"}, "queue": "q", "states": (State.READY,)}
        first = [job.id for job in harness.run(harness.verbs.list_jobs(JobFilter(**where, limit=2))).jobs]
        assert first == wanted[:2]
        second = harness.run(harness.verbs.list_jobs(JobFilter(**where, limit=2, before=first[-1]))).jobs
        assert [job.id for job in second] == wanted[2:]
