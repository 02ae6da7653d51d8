"""While a host works that gives way to requests, threads take shorter turns at the interpreter."""

import sys

import pytest

from standfast import Standfast
from standfast.hosts.host import Host, SwitchInterval

PYTHONS_OWN = 0.005
SHORT = pytest.approx(0.0005)


@pytest.fixture(autouse=True)
def _as_python_has_it():
    before = sys.getswitchinterval()
    sys.setswitchinterval(PYTHONS_OWN)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def app(tmp_path):
    with Standfast(f"sqlite:///{tmp_path}/jobs.db") as app:
        yield app


def turn_while_it_works(app):
    with Host(app):
        return sys.getswitchinterval()


def test_they_are_shorter_while_it_works(app):
    """And as they were before it, and after it."""
    app.adaptive()
    assert turn_while_it_works(app) == SHORT
    assert sys.getswitchinterval() == PYTHONS_OWN


def test_an_app_that_does_not_adapt_leaves_them_alone(app):
    assert turn_while_it_works(app) == PYTHONS_OWN


def test_they_can_be_declined(app):
    app.adaptive(turn=None)
    assert turn_while_it_works(app) == PYTHONS_OWN


def test_what_somebody_else_has_set_stays():
    """Shorter ones when it begins, and any that were set meanwhile."""
    turns = SwitchInterval()
    sys.setswitchinterval(0.0001)
    turns.begin(0.0005)
    assert sys.getswitchinterval() == pytest.approx(0.0001)
    sys.setswitchinterval(PYTHONS_OWN)
    turns.begin(0.0005)
    sys.setswitchinterval(0.002)
    turns.end()
    assert sys.getswitchinterval() == pytest.approx(0.002)
