"""What the conformance suite holds in its hands, on any store; the session's report counts who ran it."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from conformance import Harness
from conformance.agreeing import Agreeing
from empty_stores import Opener
from standfast.testing import FakeClock


class AgreeingOnce(Agreeing):
    """The same over one history: for servers that stand in for another, on which all of them are walked."""

    @pytest.mark.parametrize("seed", range(1))
    def test_the_store_agrees_with_the_model(self, harness: Harness, seed: int) -> None:
        """After each of many random steps both stores gave the same answer and show the same."""
        super().test_the_store_agrees_with_the_model(harness, seed)


@contextmanager
def open_harness(name: str, opener: Opener, request: pytest.FixtureRequest, folder: Path) -> Iterator[Harness]:
    """Open an empty store under the name by which the report calls it."""
    clock = FakeClock()
    request.node.user_properties.append(("conformance", name))
    with closing(opener(request, folder, clock)) as backend:
        yield Harness(backend, clock)
