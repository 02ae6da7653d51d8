"""One parametrised fixture over all stores."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from empty_stores import STORES
from harnesses import open_harness
from holdfast.testing.conformance import Harness


@pytest.fixture(params=STORES)
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    with open_harness(request.param, STORES[request.param], request, tmp_path) as harness:
        yield harness
