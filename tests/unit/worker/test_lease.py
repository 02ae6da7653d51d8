"""How long a worker trusts its claims."""

import asyncio

from standfast.testing.clock import FakeClock
from standfast.worker.lease import Lease


def make() -> tuple[FakeClock, Lease]:
    clock = FakeClock()
    return clock, Lease(clock, lease=15.0, margin=1.0, beat_every=5.0)


def test_nothing_starts_before_the_first_beat() -> None:
    """A worker that was never told of an accepted beat is not fresh, and may have lost everything."""
    _, lease = make()
    assert not lease.fresh
    assert lease.lost


def test_a_job_starts_only_within_two_beats() -> None:
    """A revocation made three beats ago must have arrived, so older beats start nothing."""
    clock, lease = make()
    lease.renewed(clock.boot())
    clock.advance(9.9)
    assert lease.fresh
    clock.advance(0.2)
    assert not lease.fresh
    assert not lease.lost


def test_the_lease_ends_a_margin_early_and_counts_from_the_sending() -> None:
    """Lost is said before anyone may bury us; an answer that took long gives no extra time."""
    clock, lease = make()
    sent_at = clock.boot()
    clock.advance(4)
    lease.renewed(sent_at)
    clock.advance(9.9)
    assert not lease.lost
    clock.advance(0.2)
    assert lease.lost


def test_lost_is_withdrawn_by_the_next_beat_and_final_at_burial() -> None:
    """An outage alone costs nobody its claims; a burial is for good."""
    clock, lease = make()
    lease.renewed(clock.boot())
    clock.advance(60)
    assert lease.lost
    lease.renewed(clock.boot())
    assert not lease.lost
    lease.bury()
    lease.renewed(clock.boot())
    assert lease.lost
    assert not lease.fresh


def test_an_older_answer_does_not_shorten_the_lease() -> None:
    """Beats answered out of order: the latest one sent counts."""
    clock, lease = make()
    early = clock.boot()
    clock.advance(5)
    lease.renewed(clock.boot())
    remaining = lease.remaining
    lease.renewed(early)
    assert lease.remaining == remaining


def test_a_long_beat_never_outlives_the_lease() -> None:
    """With a beat of half the lease, two beats are the whole lease: the margin still holds."""
    clock = FakeClock()
    lease = Lease(clock, lease=10.0, margin=1.0, beat_every=5.0)
    lease.renewed(clock.boot())
    clock.advance(9.1)
    assert not lease.fresh


def test_renewal_wakes_whoever_waits() -> None:
    """A claimer that waits for the lease goes on with the next beat."""

    async def scenario() -> bool:
        clock, lease = make()
        waiting = asyncio.ensure_future(lease.renewal())
        await asyncio.sleep(0)
        lease.renewed(clock.boot())
        await waiting
        return lease.fresh

    assert asyncio.run(scenario())


def test_claims_that_came_late_wait_for_word_about_them() -> None:
    """Beats that were heard before the claims were known may have named them in vain: one more must be heard."""
    clock, lease = make()
    asked_at = clock.boot()
    clock.advance(12)  # the process stands still; meanwhile beats go on
    lease.renewed(clock.boot() - 1)
    assert lease.fresh
    lease.came_by(asked_at)
    assert not lease.fresh
    lease.renewed(clock.boot() - 0.5)  # sent before the claims were known
    assert not lease.fresh
    clock.advance(1)
    lease.renewed(clock.boot())
    assert lease.fresh
    lease.came_by(clock.boot() - 1)
    assert lease.fresh
