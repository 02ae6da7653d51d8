"""Claims wait for their time and for a slot, and start through one gate."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest

from simulator.loop import VirtualLoop
from simulator.world import VirtualClock
from standfast.model.job import Claim, ClaimRef
from standfast.stores.values import Turn
from standfast.worker.control import Control, Slots
from standfast.worker.lease import Lease, PollTurns
from standfast.worker.timers import PATIENCE, SHORT_PATIENCE, Timers


class Bench:
    """Timers with a virtual clock, a lease that is renewed by hand, and a number of slots."""

    def __init__(self, slots: int = 10) -> None:
        self.clock = VirtualClock()
        self.lease = Lease(self.clock, lease=1000.0, margin=1.0, beat_every=400.0)
        self.lease.renewed(0.0)
        self.slots = Slots(slots)
        self.turns = PollTurns(2.0, 400.0)
        self.started: list[tuple[float, str]] = []
        self.returned: list[str] = []
        self.overbooked_at: list[float] = []
        self.full_at: list[float] = []
        self.timers = Timers(
            self.clock,
            self.lease,
            self.slots,
            self.turns,
            start=self._start,
            release=lambda claim: self.returned.append(claim.job_id),
            overbooked=lambda: self.overbooked_at.append(self.clock.boot()),
            full=lambda: self.full_at.append(self.clock.boot()),
        )

    def _start(self, claim: Claim) -> None:
        self.slots.take(Control(claim, self.lease, lambda *_: None))
        self.started.append((self.clock.boot(), claim.job_id))

    def claim(self, name: str, after: float = 0.0, priority: int = 0) -> Claim:
        run_at = self.clock.now() + timedelta(seconds=after)
        return Claim(
            ClaimRef(name, 1), "task", 1, b"", "default", priority, run_at, attempt=0, crashes=0, max_attempts=5
        )

    @property
    def names(self) -> list[str]:
        return [name for _, name in self.started]


def play(scenario: Callable[[], object]) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(scenario())


def test_due_claims_start_in_the_order_in_which_the_store_gave_them() -> None:
    """The store has weighed priority against waiting; a look-ahead job comes after those that are due."""

    async def scenario() -> None:
        bench = Bench(slots=0)
        bench.timers.hold([bench.claim("starved", -5), bench.claim("soon", 0.5), bench.claim("high", priority=9)])
        bench.timers.hold([bench.claim("higher", -9, priority=99)])
        await asyncio.sleep(0.75)
        bench.slots.free = 4
        bench.timers.pump()
        assert bench.names == ["starved", "high", "higher", "soon"]

    play(scenario)


def test_an_endless_stream_of_urgent_claims_lets_a_starved_one_start() -> None:
    """What the store let through is neither passed over nor given back while others that came later start."""

    async def scenario() -> None:
        bench = Bench(slots=1)
        bench.timers.hold([bench.claim("first", priority=9), bench.claim("starved")])
        for number in range(10):
            bench.timers.hold([bench.claim(f"urgent-{number}", priority=9)])
            await asyncio.sleep(PATIENCE / 3)
            bench.slots.free += 1
            bench.timers.pump()
        assert bench.names[:3] == ["first", "starved", "urgent-0"]
        assert "starved" not in bench.returned

    play(scenario)


def test_claims_ahead_that_become_due_together_go_by_time_then_as_given() -> None:
    """Within one instant the order of the store counts."""

    async def scenario() -> None:
        bench = Bench(slots=0)
        bench.timers.hold([bench.claim("b", 1), bench.claim("c", 1), bench.claim("a", 0.5)])
        await asyncio.sleep(1.25)
        bench.slots.free = 3
        bench.timers.pump()
        assert bench.names == ["a", "b", "c"]

    play(scenario)


def test_a_claim_ahead_of_its_time_starts_at_its_time_and_never_early() -> None:
    """Each starts at its own instant."""

    async def scenario() -> None:
        bench = Bench()
        bench.timers.hold([bench.claim("b", 5.25), bench.claim("a", 0.125), bench.claim("c", 9)])
        await asyncio.sleep(20)
        assert bench.started == [(0.125, "a"), (5.25, "b"), (9.0, "c")]

    play(scenario)


def test_the_wall_clock_decides_even_if_it_is_set() -> None:
    """Set back, the clock keeps a job waiting; set forth, it is noticed within a second."""

    async def scenario() -> None:
        bench = Bench()
        bench.timers.hold([bench.claim("job", 10)])
        bench.clock.offset = timedelta(seconds=-100)
        await asyncio.sleep(60)
        assert bench.names == []
        bench.clock.offset = timedelta(seconds=100)
        await asyncio.sleep(1.0)
        assert bench.names == ["job"]

    play(scenario)


def test_nothing_starts_under_a_stale_lease() -> None:
    """A due job waits for the next beat rather than start unsure; then it starts."""

    async def scenario() -> None:
        bench = Bench()
        await asyncio.sleep(900)
        bench.timers.hold([bench.claim("job")])
        assert bench.names == []
        bench.lease.renewed(bench.clock.boot())
        bench.timers.pump()
        assert bench.names == ["job"]

    play(scenario)


def test_what_becomes_due_under_a_stale_lease_is_judged_by_the_clock_of_the_next_beat() -> None:
    """The store's clock was set back while nobody heard of it."""

    async def scenario() -> None:
        bench = Bench()
        await asyncio.sleep(790)
        bench.timers.hold([bench.claim("job", 20)])
        await asyncio.sleep(100)
        assert bench.timers.due == 0
        bench.clock.offset = timedelta(seconds=-110)
        bench.lease.renewed(bench.clock.boot())
        bench.timers.pump()
        await asyncio.sleep(29)
        assert bench.names == []
        await asyncio.sleep(2)
        assert bench.names == ["job"]

    play(scenario)


def test_what_finds_no_slot_for_long_goes_back() -> None:
    """A due job does not wait behind a slow one while others may be idle."""

    async def scenario() -> None:
        bench = Bench(slots=1)
        bench.timers.hold([bench.claim("first"), bench.claim("second")])
        assert bench.names == ["first"]
        await asyncio.sleep(PATIENCE / 2)
        assert bench.returned == []
        await asyncio.sleep(PATIENCE)
        assert bench.returned == ["second"]
        assert bench.timers.due == 0

    play(scenario)


def test_what_was_held_for_later_waits_less_where_others_may_have_a_slot() -> None:
    """They hear of it at once; alone, a job is better off waiting here."""

    async def scenario() -> None:
        bench = Bench(slots=0)
        bench.turns.learn(Turn(0, 2), bench.clock.now().timestamp())
        bench.timers.hold([bench.claim("due"), bench.claim("later", 0.1)])
        await asyncio.sleep(0.1 + 2 * SHORT_PATIENCE)
        assert bench.returned == ["later"]

    play(scenario)


def test_once_closed_everything_goes_back_and_nothing_starts() -> None:
    """What is held, and what an answer that was under way still brings."""

    async def scenario() -> None:
        bench = Bench(slots=1)
        bench.timers.hold([bench.claim("runs"), bench.claim("due"), bench.claim("later", 5)])
        bench.timers.close()
        bench.slots.free = 10
        bench.timers.hold([bench.claim("underway")])
        await asyncio.sleep(10)
        assert bench.names == ["runs"]
        assert sorted(bench.returned) == ["due", "later", "underway"]

    play(scenario)


def test_claims_taken_out_do_not_start() -> None:
    """A revoked claim is gone from the heap; the others keep their times."""

    async def scenario() -> None:
        bench = Bench()
        bench.timers.hold([bench.claim("keep", 2), bench.claim("revoke", 1), bench.claim("also", 3)])
        out = bench.timers.take_out(lambda claim: claim.job_id == "revoke")
        assert [claim.job_id for claim in out] == ["revoke"]
        await asyncio.sleep(5)
        assert bench.names == ["keep", "also"]

    play(scenario)


def test_many_that_wait_for_too_long_go_back_a_few_times_and_not_one_by_one() -> None:
    """Each return wakes others; and who holds too much is told so."""

    async def scenario() -> None:
        bench = Bench(slots=0)
        bench.timers.hold([bench.claim(f"job-{number}", number / 100) for number in range(1, 101)])
        await asyncio.sleep(1.0 + 2 * PATIENCE)
        assert len(bench.returned) == 100
        assert 1 <= len(bench.overbooked_at) <= 10

    play(scenario)


@pytest.mark.parametrize(("slots", "told"), [(0, range(2, 7)), (1, range(1))])
def test_now_and_again_it_is_told_that_there_is_no_place_for_what_is_held(slots: int, told: range) -> None:
    """Once a second or so, while all places are taken."""

    async def scenario() -> None:
        bench = Bench(slots=slots)
        bench.timers.hold([bench.claim("later", 60)])
        await asyncio.sleep(5.5)
        assert len(bench.full_at) in told

    play(scenario)


def test_due_within() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.timers.hold([bench.claim("a", 1), bench.claim("b", 2), bench.claim("c", 3)])
        assert [bench.timers.due_within(seconds) for seconds in (0.5, 1, 2.5, 9)] == [0, 1, 2, 3]

    play(scenario)


def test_what_will_find_no_place_goes_back_before_its_time() -> None:
    """Of three at the same time, the last one given; the one after them has a place again."""

    async def scenario() -> None:
        bench = Bench(slots=2)
        bench.timers.hold([bench.claim("later", 6), *(bench.claim(name, 5) for name in ("a", "b", "c"))])
        in_time = bench.clock.now() + timedelta(seconds=4)
        assert bench.timers.give_back_crowded(in_time + timedelta(seconds=1), lasts=1.0) == []
        assert [claim.job_id for claim in bench.timers.give_back_crowded(in_time, lasts=1.0)] == ["c"]
        assert (bench.returned, bench.timers.ahead) == (["c"], 3)

    play(scenario)
