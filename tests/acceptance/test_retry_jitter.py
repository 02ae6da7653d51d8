"""Jobs that fail together do not come back together: their retries are spread evenly over the jitter."""

import math

import pytest
from shopfloor import PROVE, Shop

JOBS = 1000 if PROVE else 100
SEEN_BY_CHANCE = 0.0001
"""How often an even spread fails the test: once in ten thousand times."""


@pytest.mark.parametrize(("task", "earliest", "latest"), [("break_constant", 30, 60), ("break_capped", 70, 100)])
def test_retry_jitter_spread(tmp_path, task, earliest, latest):
    """The retry instants of 100 failing jobs are uniform over the whole jitter, and the cap does not erase it."""
    with Shop(tmp_path) as shop:
        handles = getattr(shop.tasks, task).enqueue_many({} for _ in range(JOBS))
        worker = shop.start("--quiet")
        for handle in handles:
            shop.become(handle, "scheduled")
        assert worker.stop() == 0

        waits = []
        for handle in handles:
            [attempt] = shop.history(handle)
            waits.append((handle.job().run_at - attempt.ended_at).total_seconds())

    assert earliest <= min(waits)
    assert max(waits) <= latest
    distance = kolmogorov_smirnov([(wait - earliest) / (latest - earliest) for wait in waits])
    assert distance < bound(JOBS), f"not even: {distance:.3f} from uniform, {sorted(waits)}"
    assert len({round(wait, 4) for wait in waits}) > JOBS * 0.95


def kolmogorov_smirnov(shares):
    """Return the greatest distance between the shares' distribution and the uniform one."""
    count = len(shares)
    return max(max((rank + 1) / count - share, share - rank / count) for rank, share in enumerate(sorted(shares)))


def bound(count):
    """Return the distance that a uniform sample exceeds only by chance (Dvoretzky–Kiefer–Wolfowitz)."""
    return math.sqrt(math.log(2 / SEEN_BY_CHANCE) / (2 * count))
