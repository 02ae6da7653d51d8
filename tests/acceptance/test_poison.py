"""A handler that takes its whole process with it, among many that do nothing wrong."""

import random

import poison_app
import pytest
from fleet import sizes, wait_until
from poison_app import Deadly

from standfast.model.crash import CRASHES_ALONE_LIMIT
from standfast.model.states import State

INNOCENTS = sizes(short=100, full=500)

pytestmark = pytest.mark.timeout(sizes(short=120, full=600))


def test_poison_among_innocents(fleet):
    """A handler that calls os._exit(9) ends dead, with the evidence; all innocents complete uncharged."""
    naps = [{"seconds": random.uniform(0.01, 0.1)} for _ in range(INNOCENTS // 2)]
    innocents = [handle.id for handle in fleet.app.tasks["nap"].enqueue_many(naps)]
    poison = fleet.enqueue("exit_nine")
    innocents += [handle.id for handle in fleet.app.tasks["nap_in_thread"].enqueue_many(naps)]
    [tree] = fleet.start_workers(1, lease=2, concurrency=8)

    dead = fleet.wait_for(poison, State.DEAD)
    fleet.wait_for_completed(INNOCENTS)

    assert {fleet.job(job).attempt for job in innocents} == {0}
    hows = {attempt.how for job in innocents for attempt in fleet.history(job)}
    assert hows == {"complete", "suspected"} | hows & {"release"}
    assert "its process exited with status 9" in dead.error
    judge_the_story(fleet, poison)
    assert tree.process.poll() is None
    wait_until(lambda: len(fleet.workers()) == 1, what="the leave of the children that ran suspects")


@pytest.mark.parametrize(("task", "when"), [("take_deadly", "read"), ("take_deadly_in_thread", "written")])
def test_poison_around_the_handler(fleet_on, task, when):
    """Code of the user's that runs before the handler, or after it, is charged for a crash as the handler is."""
    fleet = fleet_on(None, poison_app)
    poison = fleet.enqueue(task, given=Deadly(when=when))
    [tree] = fleet.start_workers(1, lease=2)

    dead = fleet.wait_for(poison, State.DEAD)

    assert (dead.attempt, dead.crashes) == (CRASHES_ALONE_LIMIT, CRASHES_ALONE_LIMIT)
    assert "its process exited with status 9" in dead.error
    said = f"{task} {poison[-8:]} dead after 3 attempts: Crash: its process exited with status 9"
    wait_until(lambda: said in tree.told, what="word of its death")


def judge_the_story(fleet, poison):
    """The commands say what happened: how often, by what, and what to do now."""
    shown = fleet.standfast_json("jobs", "show", poison)
    hows = [attempt["how"] for attempt in shown["attempts"]]
    assert shown["state"] == "dead"
    assert shown["crashes"] == hows.count("crashed") + hows.count("suspected")
    assert shown["attempt"] == hows.count("crashed") == CRASHES_ALONE_LIMIT
    assert hows[0] == "suspected", "it was not alone the first time"
    assert all(attempt["error"].startswith("its process exited with status 9") for attempt in shown["attempts"])
    assert len({attempt["worker"] for attempt in shown["attempts"]}) == len(hows)
    assert len({run.start.pid for run in fleet.ledger.runs_of(poison)}) == len(hows)
    why = " ".join(fleet.standfast("why", poison).split())
    assert f"it crashed the process that ran it {shown['crashes']} times" in why
    assert "its process exited with status 9" in why
    assert f"standfast dead retry {poison}" in why
    assert [job["id"] for job in fleet.standfast_json("dead", "list")] == [poison]
