"""The pytest plugin of Standfast: the fixtures `standfast_kit` and `standfast_app`.

A package of its own, because pytest imports plugins in every run: so `standfast` itself is imported by tests that
use it, and by no others.
"""

from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from standfast import Standfast
    from standfast.testing import StandfastKit


_EXAMPLE = """

    @pytest.fixture
    def standfast_app():
        from myproject.jobs import app
        return app
"""


@pytest.fixture
def standfast_app() -> "Standfast":
    """Give the app to test: define this fixture in conftest.py to return yours. Without that there is none."""
    pytest.fail(
        "standfast_kit does not know which app to test: define a fixture `standfast_app` in conftest.py that"
        f" returns your app{_EXAMPLE}",
        pytrace=False,
    )


@pytest.fixture
def standfast_kit(standfast_app: "Standfast") -> "Iterator[StandfastKit]":
    """Put the app on a store of the test's own, with a clock that the test moves."""
    from standfast import Standfast  # noqa: PLC0415 - see above
    from standfast.testing import StandfastKit  # noqa: PLC0415 - see above

    if not isinstance(standfast_app, Standfast):
        pytest.fail(
            f"the fixture `standfast_app` returned {_kind(standfast_app)}, not an app: define it in conftest.py so"
            f" that it returns your app, the Standfast object{_EXAMPLE}",
            pytrace=False,
        )
    with StandfastKit(standfast_app) as kit:
        yield kit


def _kind(returned: object) -> str:
    if isinstance(returned, ModuleType):
        return f"the module {returned.__name__!r}"
    return "None" if returned is None else f"an object of {type(returned).__qualname__}"
