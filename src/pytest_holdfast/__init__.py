"""The pytest plugin of Holdfast: the fixtures `holdfast_kit` and `holdfast_app`.

A package of its own, because pytest imports plugins in every run: so `holdfast` itself is imported by tests that
use it, and by no others.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from holdfast import Holdfast
    from holdfast.testing import HoldfastKit


@pytest.fixture
def holdfast_app() -> "Iterator[Holdfast]":
    """Give the app to test: override it in conftest.py to return yours. Without that it is a new, empty one."""
    from holdfast import Holdfast  # noqa: PLC0415 - see above

    with Holdfast("memory://") as app:
        yield app


@pytest.fixture
def holdfast_kit(holdfast_app: "Holdfast") -> "Iterator[HoldfastKit]":
    """Put the app on a store of the test's own, with a clock that the test moves."""
    from holdfast.testing import HoldfastKit  # noqa: PLC0415 - see above

    with HoldfastKit(holdfast_app) as kit:
        yield kit
