"""Whatever is asked, in whatever order: SQLite, PostgreSQL and Redis answer and show what the model does."""

from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from fleet import sizes
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conformance import Harness
from conformance.agreeing import History
from empty_stores import STORES
from standfast.testing import FakeClock

EXAMPLES, FEWEST, MOST = sizes(short=(4, 30, 50), full=(2000, 1, 40))
"""Few and long where it is to be short: to open all stores takes longer than many steps."""
COMPARED_EVERY = 10

Begin = Callable[[ExitStack, Random], History]


@pytest.fixture
def begin(request: pytest.FixtureRequest, quick_path: Path) -> Begin:
    """Give a maker of histories on empty stores of all kinds."""

    def begin(opened: ExitStack, random: Random) -> History:
        clock = FakeClock()
        folder = Path(opened.enter_context(TemporaryDirectory(dir=quick_path)))
        model, *others = [
            Harness(opened.enter_context(closing(opener(request, folder, clock))), clock)
            for opener in STORES.values()
        ]
        return History(model, others, random)

    return begin


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[*HealthCheck])
@given(random=st.randoms(use_true_random=False), steps=st.integers(FEWEST, MOST))
def test_all_stores_agree(begin: Begin, random: Random, steps: int) -> None:
    """After each random step all stores gave the same answer; now and again, and at the end, they show the same."""
    with ExitStack() as opened:
        history = begin(opened, random)
        for step in range(steps):
            history.step()
            if step % COMPARED_EVERY == 0:
                history.compare()
        history.compare()
