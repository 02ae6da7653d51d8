"""Long jobs go on where they were: every item is done, few are done twice after `kill -9`, none after a stop.

`make prove NAME=long_checkpoints` runs them at full size.
"""

import os
import random
import signal
from collections import Counter
from itertools import pairwise

import checkpoints_app
import pytest
from fleet import PROVE, sizes, wait_until

from standfast.durable.memo_view import memo_view
from standfast.model.states import State

ROWS = sizes(short=3_000, full=100_000)
EVERY = 100
KILLS = sizes(short=2, full=20)
STOPS = sizes(short=2, full=10)
PAUSE = 0.0005
OPTIONS = {"lease": 2, "concurrency": 2}
LONG = 900 if PROVE else 60

CHILD_KILLS = 2
"""A job that is alone in a process which dies is blamed for it, and three times are too many."""

pytestmark = pytest.mark.timeout(1_200 if PROVE else 120)


@pytest.fixture
def fleet(store, request, fleet_on):
    """Give an empty fleet of long jobs on a store."""
    return fleet_on(None if store == "sqlite" else request.getfixturevalue(f"{store}_url"), checkpoints_app)


@pytest.fixture
def fleet_here(fleet_on):
    """Give an empty fleet of long jobs on a SQLite file."""
    return fleet_on(None, checkpoints_app)


class Watched:
    """One job over many rows, and what its handler has noted."""

    def __init__(self, fleet, task, *, pause=PAUSE, rows=ROWS):
        self.fleet, self.rows = fleet, rows
        self.job_id = fleet.enqueue(task, rows=rows, every=EVERY, pause=pause)

    @property
    def items(self):
        file = self.fleet.ledger.path.with_name("items")
        return [int(line) for line in file.read_bytes().splitlines()] if file.exists() else []

    @property
    def starts(self):
        """The fence and the process of each run."""
        file = self.fleet.ledger.path.with_name("starts")
        return [tuple(map(int, line.split())) for line in file.read_text().splitlines()] if file.exists() else []

    def wait_for(self, done, *, runs):
        """Wait until the so manieth run has done some, and so many are done in all."""
        wait_until(lambda: len(self.starts) >= runs and len(set(self.items)) >= done, LONG, f"{done} items")

    def repeated(self):
        """Return how many items were done again, once all are done."""
        self.fleet.wait_for(self.job_id, State.COMPLETED, within=LONG)
        counted = Counter(self.items)
        assert counted.keys() == set(range(self.rows))
        return counted.total() - self.rows


KILLED = [("sqlite", "import_rows"), ("postgres", "aimport_rows"), ("redis", "import_rows")]
STOPPED = [("sqlite", "import_isolated"), ("redis", "aimport_rows"), ("postgres", "import_rows")]
"""Between them, the first two of each are on all stores, with all kinds of handlers."""


@pytest.mark.parametrize(("store", "task"), sizes(short=KILLED[:2], full=KILLED))
def test_few_items_are_repeated_after_kill_9(fleet, task, measured):
    """Whole workers die, and children alone; at most `every` items are done again for each."""
    trees = fleet.start_workers(2, **OPTIONS)
    watched = Watched(fleet, task)
    deaths = ["child"] * min(CHILD_KILLS, KILLS - 1) + ["tree"] * max(1, KILLS - CHILD_KILLS)
    random.shuffle(deaths)
    for number, death in enumerate(deaths, start=1):
        before = len(set(watched.items))
        watched.wait_for(before + random.randrange(ROWS // KILLS // 2), runs=number)
        _, pid, _ = watched.starts[-1]
        if death == "child":
            os.kill(pid, signal.SIGKILL)
        else:
            [at] = [at for at, tree in enumerate(trees) if os.getpgid(pid) == tree.process.pid]
            trees[at].kill_tree()
            trees[at] = fleet.start(**OPTIONS)
        wait_until(lambda runs=number: len(watched.starts) > runs, LONG, "the next run")

    repeated = watched.repeated()
    steps_back = [before + 1 - item for before, item in pairwise(watched.items) if item != before + 1]
    assert len(steps_back) <= KILLS
    assert all(0 < step <= EVERY for step in steps_back)
    measured(f"{ROWS:,} items, {KILLS} kills: {repeated:,} items done again")


@pytest.mark.parametrize(("store", "task"), sizes(short=STOPPED[:2], full=STOPPED))
def test_no_item_is_repeated_after_a_stop(fleet, task):
    """However often its worker is told to end, and it charges nothing; `jobs show` knows how far it is."""
    watched = Watched(fleet, task)
    for number in range(1, STOPS + 1):
        tree = fleet.start(**OPTIONS)
        watched.wait_for(number * ROWS // (STOPS + 2), runs=number)
        tree.signal_supervisor(signal.SIGTERM)
        assert tree.exit_code() == 0
        [cursor] = memo_view(fleet.app.call(fleet.app.verbs.memos(watched.job_id)), values=False).cursors
        assert (cursor.name, cursor.done) == ("items", len(watched.items))
    fleet.start(**OPTIONS)

    assert watched.repeated() == 0
    assert watched.items == list(range(ROWS))
    assert fleet.job(watched.job_id).attempt == 0
    last = fleet.history(watched.job_id)[-1]
    assert "resumes items: goes on after item" in (last.log or "")


def test_a_cancelled_loop_ends_between_two_items(fleet_here):
    """And its cursor is after the last one that was done."""
    watched = Watched(fleet_here, "import_rows", rows=1_000_000)
    fleet_here.start(**OPTIONS)
    watched.wait_for(500, runs=1)
    fleet_here.app.handle(watched.job_id).cancel()
    fleet_here.wait_for(watched.job_id, State.CANCELLED)
    [cursor] = memo_view(fleet_here.app.call(fleet_here.app.verbs.memos(watched.job_id)), values=False).cursors
    assert cursor.done == len(watched.items)


@pytest.mark.parametrize(("task", "found"), [("hold_on", 42), ("take_all", 43)])
def test_what_a_killed_cell_has_saved_is_there(fleet_here, task, found):
    """A handler that heeds nothing is ended with its process; what it had saved, the next attempt finds."""
    fleet_here.start(**OPTIONS)
    handle = fleet_here.app.tasks[task].enqueue()
    assert handle.result(60) == found
    assert [attempt.how for attempt in fleet_here.history(handle.id)] == ["retry", "complete"]
