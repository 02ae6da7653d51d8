"""What beats tell about looking for work by turns, and about records that are due."""

from datetime import timedelta

import pytest

from conformance.harness import LEASE, Harness
from standfast.model.crash import DeathKind
from standfast.model.records import Kind
from standfast.stores.values import Turn, WorkerBeat, WorkerInfo

Queues = tuple[str, ...] | None


def _in(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


def _hire(harness: Harness, name: str, queues: Queues = None, lease: float = LEASE) -> str:
    harness.run(harness.verbs.register(WorkerInfo(name, "s", "h", 1, _in(lease), queues)))
    return name


def _turn(harness: Harness, worker: str) -> Turn:
    turns = harness.beat(worker).turns
    assert set(turns) == {worker}
    return turns[worker]


class TakingTurns:
    """Each worker learns its place among the living that serve the same queues."""

    def test_a_worker_alone(self, harness: Harness) -> None:
        """It is the first of one, and nobody has looked for work yet."""
        assert _turn(harness, _hire(harness, "a")) == Turn(0, 1, None)

    def test_ranks_go_by_id(self, harness: Harness) -> None:
        """Whoever came or beat first, the ids decide, in the order of their code points."""
        names = ["b", "é", "B", "a1", "a", "Z"]
        for name in names:
            _hire(harness, name)
            harness.clock.advance(0.1)
        for name in names:
            assert _turn(harness, name) == Turn(sorted(names).index(name), len(names))

    def test_many_turns_in_one_beat(self, harness: Harness) -> None:
        """A supervisor learns the place of each of its children; those of others it does not hear of."""
        for name, queues in {"a": None, "b": ("q",), "c": None, "d": None}.items():
            _hire(harness, name, queues)
        answer = harness.run(harness.verbs.beat([WorkerBeat("d"), WorkerBeat("b"), WorkerBeat("a")]))
        assert answer.turns == {"a": Turn(0, 3), "d": Turn(2, 3), "b": Turn(0, 1)}
        assert harness.run(harness.verbs.beat([])).turns == {}

    @pytest.mark.parametrize("other", [("q",), ("q", "r", "s"), ("R", "q"), ("qr",), ()])
    @pytest.mark.parametrize("own", [("q", "r"), None])
    def test_other_queues_are_another_turn(self, harness: Harness, own: Queues, other: Queues) -> None:
        """Those that serve more, fewer or other queues do not count, nor for who serves every queue."""
        _hire(harness, "a", other)
        assert _turn(harness, _hire(harness, "b", own)) == Turn(0, 1)

    @pytest.mark.parametrize("same", [("q", "r"), ("r", "q"), ("q", "r", "q")])
    def test_the_order_of_queues_makes_no_difference(self, harness: Harness, same: Queues) -> None:
        """Who serves the same queues in another order looks for the same work."""
        _hire(harness, "a", same)
        assert _turn(harness, _hire(harness, "b", ("q", "r"))) == Turn(1, 2)

    def test_the_silent_do_not_count(self, harness: Harness) -> None:
        """Those whose lease has run out have no turn: not in the last moment of it, and until they beat again."""
        for name in "abc":
            _hire(harness, name, lease=LEASE if name == "a" else 10 * LEASE)
        harness.clock.advance(LEASE)
        assert _turn(harness, "c") == Turn(2, 3)
        harness.clock.advance(0.001)
        assert _turn(harness, "c") == Turn(1, 2)
        assert _turn(harness, "a") == Turn(0, 3)
        assert _turn(harness, "c") == Turn(2, 3)

    def test_the_condemned_do_not_count(self, harness: Harness) -> None:
        """Who is marked dead has no turn and gets none, however it beats; nor has it when it is buried."""
        _hire(harness, "a")
        _hire(harness, "b", lease=10 * LEASE)
        harness.expire("a")
        answer = harness.run(harness.verbs.beat([WorkerBeat("a"), WorkerBeat("b"), WorkerBeat("unknown")]))
        assert answer.turns == {"b": Turn(0, 1)}
        harness.bury("a", DeathKind.STOPPED)
        assert _turn(harness, "b") == Turn(0, 1)

    def test_the_buried_leave_their_turn(self, harness: Harness) -> None:
        """A worker that stopped is out of the round at once, and one that came is in it."""
        for name in "abc":
            _hire(harness, name)
        harness.bury("a", DeathKind.STOPPED)
        assert _turn(harness, "c") == Turn(1, 2)
        _hire(harness, "aa")
        assert _turn(harness, "c") == Turn(2, 3)


class TellingOfPolls:
    """Each learns when any of its like last looked for work without being called."""

    def test_a_poll_is_told_to_all_alike(self, harness: Harness) -> None:
        """What one beat tells, the next beats of all in the round bring back; others do not hear of it."""
        for name, queues in {"a": None, "b": None, "c": ("q",)}.items():
            _hire(harness, name, queues)
        polled_at = harness.clock.now() - _in(1.234567)
        assert harness.beat("a", polled_at=polled_at).turns == {"a": Turn(0, 2, polled_at)}
        assert _turn(harness, "b") == Turn(1, 2, polled_at)
        assert _turn(harness, "c") == Turn(0, 1, None)

    def test_polls_of_one_beat(self, harness: Harness) -> None:
        """All that a beat tells counts for all that it brings back, the latest of each round."""
        for name in "abc":
            _hire(harness, name)
        now = harness.clock.now()
        beats = [WorkerBeat(name, polled_at=now - _in(age)) for name, age in (("a", 2), ("b", 1), ("c", 3))]
        turns = harness.run(harness.verbs.beat(beats)).turns
        assert {turn.polled_at for turn in turns.values()} == {now - _in(1)}

    def test_no_news_leaves_what_is_known(self, harness: Harness) -> None:
        """A beat without news of a poll forgets none, however many there are."""
        worker = _hire(harness, "a")
        polled_at = harness.clock.now()
        harness.beat(worker, polled_at=polled_at)
        for _ in range(3):
            harness.clock.advance(5)
            assert _turn(harness, worker).polled_at == polled_at

    def test_the_latest_poll_counts(self, harness: Harness) -> None:
        """Of each worker its last word, of the round the latest."""
        first, second = _hire(harness, "a"), _hire(harness, "b")
        now = harness.clock.now()
        harness.beat(first, polled_at=now - _in(3))
        harness.beat(second, polled_at=now - _in(5))
        assert _turn(harness, second).polled_at == now - _in(3)
        harness.beat(first, polled_at=now - _in(9))
        assert _turn(harness, first).polled_at == now - _in(5)
        harness.beat(second, polled_at=now)
        assert _turn(harness, first).polled_at == now

    def test_polls_of_those_who_do_not_count(self, harness: Harness) -> None:
        """A poll of one who is silent, condemned or buried is no sign that somebody looks for work."""
        _hire(harness, "a")
        worker = _hire(harness, "b", lease=10 * LEASE)
        harness.beat("a", polled_at=harness.clock.now())
        assert _turn(harness, worker).polled_at == harness.clock.now()
        harness.expire("a")
        assert _turn(harness, worker).polled_at is None
        harness.beat("a", polled_at=harness.clock.now())
        assert _turn(harness, worker).polled_at is None
        harness.bury("a", DeathKind.STOPPED)
        assert _turn(harness, worker).polled_at is None

    def test_a_refused_beat_tells_nothing(self, harness: Harness) -> None:
        """A worker that nobody knows has not looked for work."""
        harness.beat("stranger", polled_at=harness.clock.now())
        assert _turn(harness, _hire(harness, "stranger")) == Turn(0, 1, None)


class TellingOfRecords:
    """Each beat brings the time of the record that is due first."""

    def test_the_first_time_of_all_records(self, harness: Harness) -> None:
        """Of whatever kind, past or future; those without a time do not count."""
        now, worker = harness.clock.now(), harness.register()
        assert harness.beat(worker).record_due_at is None
        harness.change("none")
        assert harness.beat(worker).record_due_at is None
        times = [(Kind.SCHEDULE, 60.000001), (Kind.WINDOW, 90), (Kind.RELEASE, 30), (Kind.WINDOW, -3600)]
        soonest = []
        for number, (kind, seconds) in enumerate(times):
            harness.change(f"record-{number}", kind=kind, due_at=now + _in(seconds))
            soonest.append(harness.beat(worker).record_due_at)
        assert soonest == [now + _in(seconds) for seconds in (60.000001, 60.000001, 30, -3600)]
        assert harness.run(harness.verbs.beat([])).record_due_at == now - _in(3600)

    def test_a_change_moves_the_first_time(self, harness: Harness) -> None:
        """What a record was due at before counts no more, nor what is forgotten or was refused."""
        now, worker = harness.clock.now(), harness.register()
        harness.change("a", due_at=now)
        harness.change("b", due_at=now + _in(20))
        harness.change("a", seen=1, due_at=now + _in(10))
        assert harness.beat(worker).record_due_at == now + _in(10)
        assert not harness.change("a", seen=1, due_at=now)
        assert harness.beat(worker).record_due_at == now + _in(10)
        harness.change("a", seen=2, due_at=None)
        assert harness.beat(worker).record_due_at == now + _in(20)
        harness.change("b", seen=1, body=None)
        assert harness.beat(worker).record_due_at is None
