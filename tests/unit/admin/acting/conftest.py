"""A stage for each test."""

import pytest

from dashboard_stage import open_stage


@pytest.fixture
def stage():
    with open_stage() as stage:
        yield stage
