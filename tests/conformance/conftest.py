"""One parametrised fixture over all stores."""

from collections.abc import Iterator
from pathlib import Path
from types import FunctionType

import pytest

from conformance import Harness
from empty_stores import STORES
from harnesses import open_harness


@pytest.fixture(params=STORES)
def harness(request: pytest.FixtureRequest, tmp_path: Path, quick_path: Path) -> Iterator[Harness]:
    folder = tmp_path if _is_for_several(request.function) else quick_path
    with open_harness(request.param, STORES[request.param], request, folder) as harness:
        yield harness


def _is_for_several(test: FunctionType) -> bool:
    """Tell whether threads of the test meet in the store: then its commits take as long as they do on a disk."""
    return "ThreadPoolExecutor" in test.__code__.co_names
