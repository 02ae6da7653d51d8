"""`app.admin`: the operations of command line and dashboard, from code."""

import asyncio

import pytest

from standfast import Standfast
from standfast.admin.operation import NotThereError, WrongRequestError


@pytest.fixture
def app():
    with Standfast("memory://", name="shop") as app:
        app.task(name="send", queue="mail")(lambda: None)
        yield app


def test_queues_counts_jobs_and_workers_are_seen(app):
    """As structs, with the fields of the JSON API."""
    job = app.tasks["send"].enqueue()
    [queue] = app.admin.queues()
    assert (queue.name, queue.states["ready"], queue.workers) == ("mail", 1, 0)
    assert {state for state, count in app.admin.counts().items() if count} == {"ready"}
    assert [row.id for row in app.admin.jobs(state=["ready"], queue="mail", limit=10)] == [job.id]
    assert app.admin.jobs(state=["dead"]) == ()
    assert app.admin.workers() == ()


def test_any_operation_runs_by_its_name_and_is_in_the_audit(app):
    """From sync and from async code."""
    job = app.tasks["send"].enqueue()
    assert app.admin.run("queues.pause", name="mail").paused_at is not None
    assert asyncio.run(app.admin.arun("jobs.cancel", id=job.id)).answer == "cancelled"
    entries = app.admin.run("audit.list").entries
    assert [(each.what, each.who, each.by) for each in entries] == [
        ("jobs.cancel", "shop", "code"),
        ("queues.pause", "shop", "code"),
    ]


def test_what_cannot_be_meant_is_refused(app):
    """An operation that there is not, a field that it has not, a thing that is not there."""
    with pytest.raises(WrongRequestError, match=r"did you mean 'queues\.list'"):
        app.admin.run("queue.list")
    with pytest.raises(WrongRequestError, match="colour"):
        app.admin.jobs(colour="red")
    with pytest.raises(NotThereError):
        app.admin.run("queues.show", name="nix")
