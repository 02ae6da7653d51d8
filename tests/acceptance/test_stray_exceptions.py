"""Exceptions that no attempt can hear: the worker lives, other jobs are unharmed, and an incident tells of each."""

import re

import pytest
from fleet import sizes
from shopfloor import Shop, eventually

from standfast.model.incidents import Trouble
from standfast.model.states import State
from standfast.observe.incidents import list_incidents, read_evidence
from standfast.stores.verb import run_procedure

pytestmark = pytest.mark.timeout(180)

FLOOD = 100_000


@pytest.fixture(params=["sqlite", "postgres"])
def shop(request, tmp_path, monkeypatch):
    """Give a shop on one store after the other, whose handlers misbehave."""
    if request.param == "postgres":
        monkeypatch.setenv("STRAY_URL", request.getfixturevalue("postgres_url"))
    with Shop(tmp_path / "shop", "stray_app.py") as opened:
        yield opened


def incidents(shop):
    """Return all incidents of exceptions, each with its evidence."""
    backend = shop.app.backend
    found = run_procedure(backend.run, list_incidents(backend.verbs))
    return [
        (each, run_procedure(backend.run, read_evidence(backend.verbs, each.id)).parts)
        for each in found
        if each.trouble is Trouble.EXCEPTION
    ]


def told_of(shop, words):
    """Return the incident with these words in its summary, and its evidence, once there is one."""
    return eventually(
        lambda: next(((each, parts) for each, parts in incidents(shop) if words in each.summary), None),
        f"an incident that says {words!r}",
    )


@pytest.mark.parametrize(
    ("shop", "task", "words", "line"),
    [
        ("sqlite", "start_thread", "ValueError: raised in a thread in thread 'courier'", "in raise_in_thread"),
        (
            "postgres",
            "schedule_callback",
            "ValueError: raised in a callback in callback raise_in_callback",
            "in raise_in_",
        ),
        (
            "sqlite",
            "start_task_and_forget",
            "ValueError: raised in a task in task 'procedure' (raise_in_task)",
            "in raise_in_",
        ),
        ("postgres", "let_go", "ValueError: raised in __del__ in Fragile.__del__", "in __del__"),
        ("sqlite", "never_await", "RuntimeWarning: coroutine 'raise_in_task' was never awaited", "in never_await"),
    ],
    indirect=["shop"],
    ids=lambda value: value if value.isidentifier() else "",
)
def test_an_exception_that_nobody_can_hear_is_an_incident(shop, task, words, line):
    """It names task and job and has the traceback; the worker lives, and its jobs complete, that one included."""
    worker = shop.worker()
    [child] = worker.children
    handle = shop.app.tasks[task].enqueue()

    incident, parts = told_of(shop, words)

    assert [(job.job_id, job.task, job.attempt) for job in incident.jobs] == [(handle.id, task, 1)]
    assert line in parts["traceback"]
    assert f"job: {handle.id} ({task}, attempt 1)" in parts["context"]
    assert incident.count == 1
    assert incident.fingerprint
    others = [shop.tasks.nothing.enqueue() for _ in range(20)]
    shop.settled([handle, *others])
    assert {each.status() for each in [handle, *others]} == {State.COMPLETED}
    assert worker.children == [child]
    assert len(incidents(shop)) == 1
    assert f"{task} {handle.id[-8:]}" in worker.words
    assert "nobody could hear this" in worker.words
    assert worker.stop() == 0


@pytest.mark.parametrize("shop", sizes(short=["sqlite"], full=["sqlite", "postgres"]), indirect=True)
def test_a_flood_is_one_incident_with_its_count(shop):
    """A hundred thousand exceptions are folded before they are sent: none is missing from the count."""
    worker = shop.worker()
    [child] = worker.children
    handle = shop.tasks.flood.enqueue(times=FLOOD)
    other = shop.tasks.nothing.enqueue()

    eventually(lambda: sum(each.count for each, _ in incidents(shop)) == FLOOD, "all are counted")

    told = [each for each, _ in incidents(shop)]
    assert len({each.fingerprint for each in told}) == 1
    assert len(told) <= 6
    assert {job.job_id for each in told for job in each.jobs} == {handle.id}
    shop.settled([handle, other])
    assert {handle.status(), other.status()} == {State.COMPLETED}
    assert worker.children == [child]
    assert worker.words.count("raised in a callback in callback") <= 6


@pytest.mark.parametrize("shop", sizes(short=["postgres"], full=["sqlite", "postgres"]), indirect=True)
def test_a_secret_of_the_job_is_in_no_text(shop):
    """A marked argument is taken out of everything that is told, though a thread of its own tells it."""
    worker = shop.worker()
    token = "correct-horse-battery"
    handle = shop.tasks.start_thread_from_coroutine.enqueue(token=token)

    incident, parts = told_of(shop, "the token is")

    assert [job.job_id for job in incident.jobs] == [handle.id]
    assert token not in f"{incident} {parts}"
    assert "the token is ••••" in incident.summary
    assert token not in worker.words


@pytest.mark.parametrize("shop", sizes(short=["sqlite"], full=["sqlite", "postgres"]), indirect=True)
def test_locals_are_shown_where_they_are_wanted_and_no_secret_is(shop):
    """With `incident_locals` the innermost frames tell their locals; secrets among them are hidden."""
    shop.worker(STANDFAST_INCIDENT_LOCALS="true")
    token = "correct-horse-battery"
    shop.tasks.start_thread_from_coroutine.enqueue(token=token)

    _, parts = told_of(shop, "the token is")

    assert "Locals of tell_token" in parts["traceback"]
    assert "order = 42" in parts["traceback"]
    assert re.search(r"password = (\(hidden|••••)", parts["traceback"])
    assert token not in parts["traceback"]
    assert "hunter2" not in parts["traceback"].partition("Traceback (most recent call last)")[0]
