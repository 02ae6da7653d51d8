"""The pytest plugin of Holdfast: the fixtures `holdfast_kit` and `holdfast_app`.

A package of its own, because pytest imports plugins in every run: so `holdfast` itself is imported by tests that
use it, and by no others.
"""

from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from holdfast import Holdfast
    from holdfast.testing import HoldfastKit


_EXAMPLE = """

    @pytest.fixture
    def holdfast_app():
        from myproject.jobs import app
        return app
"""


@pytest.fixture
def holdfast_app() -> "Holdfast":
    """Give the app to test: define this fixture in conftest.py to return yours. Without that there is none."""
    pytest.fail(
        "holdfast_kit does not know which app to test: define a fixture `holdfast_app` in conftest.py that"
        f" returns your app{_EXAMPLE}",
        pytrace=False,
    )


@pytest.fixture
def holdfast_kit(holdfast_app: "Holdfast") -> "Iterator[HoldfastKit]":
    """Put the app on a store of the test's own, with a clock that the test moves."""
    from holdfast import Holdfast  # noqa: PLC0415 - see above
    from holdfast.testing import HoldfastKit  # noqa: PLC0415 - see above

    if not isinstance(holdfast_app, Holdfast):
        pytest.fail(
            f"the fixture `holdfast_app` returned {_kind(holdfast_app)}, not an app: define it in conftest.py so"
            f" that it returns your app, the Holdfast object{_EXAMPLE}",
            pytrace=False,
        )
    with HoldfastKit(holdfast_app) as kit:
        yield kit


def _kind(returned: object) -> str:
    if isinstance(returned, ModuleType):
        return f"the module {returned.__name__!r}"
    return "None" if returned is None else f"an object of {type(returned).__qualname__}"
