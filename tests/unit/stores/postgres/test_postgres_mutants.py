"""Five ways to get it wrong, each of which a test notices.

A mutant is put into the store, and the test that is there against it has to fail, in the very line that tells of
the harm. That it passes without the mutant is shown where it stands.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

import pytest
import test_marks
import test_pg_bell
from pg_world import World
from test_marks import Shop

from standfast.stores.postgres.notify import PostgresListener, Waiting
from standfast.stores.postgres.readiness import Waits
from standfast.stores.postgres.rows import Marks, RememberingVerbs
from standfast.stores.postgres.wire import Call, Result, Wire


@pytest.fixture
def shop(postgres_url: str, postgres_schema: str) -> Iterator[Shop]:
    shop = Shop(postgres_url, postgres_schema)
    with closing(shop.backend):
        yield shop


@contextmanager
def noticed_by(line: str) -> Iterator[None]:
    """Expect that a test fails in this line."""
    with pytest.raises(AssertionError) as failure:
        yield
    assert [str(entry.statement).strip() for entry in failure.traceback if "test_" in entry.path.name][-1] == line


def rewrite(verbs: RememberingVerbs, old: str, new: str) -> None:
    """Put something else in the place of what all statements of claims say."""
    changed = {name: text.replace(old, new) for name, text in verbs._sql.items()}
    assert changed["claim"] != verbs._sql["claim"]
    verbs._sql = changed


# -- a mark past an open enqueue -----------------------------------------------------------------------------------


def test_a_mark_past_an_open_enqueue_is_noticed(shop: Shop) -> None:
    """Marks go up to the newest transaction that was seen, where they should stop at the oldest that is open."""
    rewrite(shop.backend.verbs, "pg_snapshot_xmin", "pg_snapshot_xmax")
    with noticed_by("assert shop.claim() == [late]"):
        test_marks.test_a_mark_does_not_pass_an_open_enqueue(shop)


def test_a_mark_past_an_open_enqueue_in_an_empty_level_is_noticed(shop: Shop) -> None:
    """Likewise where a claim found nothing."""
    rewrite(shop.backend.verbs, "pg_snapshot_xmin", "pg_snapshot_xmax")
    with noticed_by("assert shop.claim() == [late]"):
        test_marks.test_an_empty_level_does_not_hide_an_open_enqueue(shop)


# -- a mark kept after failover ------------------------------------------------------------------------------------


def test_a_mark_kept_after_failover_is_noticed(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new connection begins where the old one was, though it may lead to a server that lost the last commits."""
    monkeypatch.setattr(Marks, "forget", lambda _: None)
    with noticed_by("assert shop.claim() == [lost]"):
        test_marks.test_after_a_failover_a_lost_claim_is_made_again(shop)


def test_a_mark_kept_when_xmin_went_back_is_noticed(shop: Shop) -> None:
    """A mark from the future is believed, which another server set: behind a pooler no connection may break."""
    rewrite(shop.backend.verbs, "noted.mark <= asker.xmin", "noted.mark IS NOT NULL")
    with noticed_by("assert shop.claim() == [job_id]"):
        test_marks.test_a_mark_of_another_server_says_nothing(shop)


# -- no sweep ------------------------------------------------------------------------------------------------------


def test_no_sweep_is_noticed(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Marks stay for ever, and what a claim had locked that was rolled back is behind them."""
    monkeypatch.setattr(Marks, "begin", lambda marks: marks._noted)
    with noticed_by("assert shop.claim() == [passed_over]"):
        test_marks.test_a_sweep_finds_what_a_rolled_back_claim_left(shop)


# -- notify before commit ------------------------------------------------------------------------------------------


async def test_notify_before_commit_is_noticed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever begins to wait between the ring and the commit saw nothing, and hears nothing."""
    asking = Wire.asking

    def ring_first(wire: Wire, calls: list[Call], after: Sequence[Call] = ()) -> Waits[list[Result]]:
        if after:
            yield from asking(wire, after)
        return (yield from asking(wire, calls))

    monkeypatch.setattr(Wire, "asking", ring_first)
    monkeypatch.setattr(test_pg_bell, "SOON", 0.5)
    with noticed_by("assert await listener.wait(SOON)"):
        await test_pg_bell.test_whether_anyone_waits_is_asked_after_the_commit(world, alone=True)


# -- waiting registered after the last claim -----------------------------------------------------------------------


async def test_waiting_registered_after_the_last_claim_is_noticed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who does not look again, once the server knows of them, misses what came in between."""
    read = PostgresListener._read

    def read_and_sleep(listener: PostgresListener) -> None:
        read(listener)
        if listener._waiting is Waiting.YES:
            listener._waiting = Waiting.ASLEEP

    monkeypatch.setattr(PostgresListener, "_read", read_and_sleep)
    monkeypatch.setattr(test_pg_bell, "SOON", 0.5)
    with noticed_by("assert await listener.wait(SOON)"):
        await test_pg_bell.test_what_came_before_the_wait_was_known_is_looked_for(world)
