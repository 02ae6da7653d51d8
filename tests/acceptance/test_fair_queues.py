"""Queues share a worker by their weights, or go strictly in the order given."""

from collections import Counter

import pytest
from shopfloor import PROVE, Shop

WEIGHTS = {"critical": 6, "mail": 3, "reports": 1}
LOOKED_AT = 20_000 if PROVE else 1_000
"""So many starts are judged; until then no queue runs dry."""

IN_HAND = 2_000
"""More than workers have claimed ahead of what they have started."""


def fill(shop, stock):
    """Enqueue so many jobs in each queue; return which queue each job is in."""
    return {
        handle.id: queue
        for queue, count in stock.items()
        for handle in shop.tasks.pack.options(queue=queue).enqueue_many({"order": n} for n in range(count))
    }


def stock_for(starts):
    """Return enough jobs of each queue that none runs dry within so many starts, what is claimed ahead included."""
    whole = sum(WEIGHTS.values())
    return {queue: (starts + IN_HAND) * weight // whole * 5 // 4 for queue, weight in WEIGHTS.items()}


@pytest.mark.parametrize("options", ["--concurrency 1", "--concurrency 20", "--concurrency 20 --processes 2"])
def test_weights(tmp_path, options):
    """While all queues have jobs, each starts its part of them: within a tenth of its weight."""
    with Shop(tmp_path) as shop:
        queue_of = fill(shop, stock_for(LOOKED_AT))
        worker = shop.drain("--queues", "critical=6,mail=3,reports=1", *options.split())
        assert "only critical 6, mail 3, reports 1" in worker.words
        started = Counter(queue_of[line["job"]] for line in shop.ledger()[:LOOKED_AT])
        for queue, weight in WEIGHTS.items():
            meant = LOOKED_AT * weight / sum(WEIGHTS.values())
            assert abs(started[queue] - meant) <= meant / 10, started
        assert shop.counts() == {"completed": len(queue_of)}


def test_an_empty_queue_leaves_its_part_to_the_others(tmp_path):
    """The two that have jobs share three to one, and a queue that is not named is left alone."""
    with Shop(tmp_path) as shop:
        queue_of = fill(shop, {"mail": 600, "reports": 200, "other": 10})
        shop.drain("--queues", "critical=6,mail=3,reports=1", "--concurrency", "5")
        started = Counter(queue_of[line["job"]] for line in shop.ledger()[:400])
        assert abs(started["mail"] - 300) <= 30, started
        assert shop.counts() == {"completed": 800, "ready": 10}


def test_strict(tmp_path):
    """The first queue before the others, as long as it has jobs."""
    with Shop(tmp_path) as shop:
        queue_of = fill(shop, {"mail": 50, "critical": 50})
        worker = shop.drain("--queues", "critical,mail", "--strict", "--concurrency", "1")
        assert "only critical, then mail" in worker.words
        assert [queue_of[line["job"]] for line in shop.ledger()] == ["critical"] * 50 + ["mail"] * 50


def test_without_weights_all_are_equal(tmp_path):
    """`--queues a,b` alone gives each the same."""
    with Shop(tmp_path) as shop:
        queue_of = fill(shop, {"mail": 300, "critical": 300})
        shop.drain("--queues", "critical,mail", "--concurrency", "1")
        started = Counter(queue_of[line["job"]] for line in shop.ledger()[:400])
        assert abs(started["mail"] - 200) <= 20, started
