"""A dashboard over a store to which things happen."""

import pytest

from dashboard_stage import open_stage


@pytest.fixture
def stage():
    with open_stage() as opened:
        yield opened
