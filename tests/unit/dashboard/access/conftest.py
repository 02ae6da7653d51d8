"""An entrance, and time."""

import pytest
from access_stage import TOKEN, Time, entrance


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def door(time):
    """Give an entrance with links and a token, for this machine only."""
    return entrance(time, token=TOKEN)
