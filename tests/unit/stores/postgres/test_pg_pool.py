"""Places in a pool are not lost, wherever a signal's handler raises."""

import sys
import threading
import time
from contextlib import suppress

import pytest

from standfast.errors import StoreUnavailableError
from standfast.stores.postgres import connect

LINES = 400
"""More lines than a call takes."""


class LateError(Exception):
    """What a handler raises that ends requests."""


class _Alarm:
    """Raises at the n-th line that is run in a file, as a handler might."""

    def __init__(self, files, after):
        self._files, self._left = files, after

    def __call__(self, frame, event, _):
        if frame.f_code.co_filename not in self._files:
            return None
        if event == "line":
            self._left -= 1
            if self._left == 0:
                raise LateError
        return self


def _run(world, alarm):
    before = sys.gettrace()
    sys.settrace(alarm)
    try:
        return world.ask("SELECT 1")
    finally:
        sys.settrace(before)


def test_a_handler_may_raise_anywhere(make_world, postgres_url):
    """At each line of borrowing and giving back, in turn, with a single place: the next call gets it."""
    world = make_world(postgres_url, timeout=2.0)
    world.engine.prepare()
    world.engine._jobs._size = 1
    files = {connect.__file__, threading.__file__}
    raised = 0
    for line in range(1, LINES):
        with suppress(LateError):
            _run(world, _Alarm(files, line))
            break
        raised += 1
        assert world.ask("SELECT 2") == [(2,)]
    assert 10 < raised < LINES - 1


def test_who_waits_for_a_place_finds_a_lost_one(make_world, postgres_url):
    """A place whose owner is gone without a word is another's."""
    world = make_world(postgres_url, timeout=10.0)
    world.engine.prepare()
    lent = world.engine._jobs
    lent._size = 1
    place = [lent._take_place(time.monotonic())]
    with pytest.raises(StoreUnavailableError, match="in use"), lent.lend(time.monotonic()):
        pass
    dropper = threading.Timer(0.05, place.clear)
    dropper.start()
    assert world.ask("SELECT 3") == [(3,)]
    dropper.join()
