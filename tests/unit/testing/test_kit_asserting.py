"""What was enqueued is compared as the handler receives it, and told readably where it is something else."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

import pytest

from standfast import Context, Secret, Standfast, State
from standfast.errors import UnknownTaskError


@dataclass
class Address:
    city: str


@pytest.fixture
def app():
    app = Standfast("memory://")

    @app.task(queue="mail", tags=["letters"])
    def send(ctx: Context, to: str, subject: str = "hello", where: Address | None = None) -> None: ...

    @app.task
    def log_in(user: str, password: Annotated[str, Secret]) -> None: ...

    @app.task
    def move(queue: str, at: int) -> None: ...

    return app


@pytest.fixture
def send(app):
    return app.tasks["send"]


def message(excinfo):
    return str(excinfo.value).splitlines()


def test_any_job_of_the_task_will_do(kit, send):
    kit.assert_not_enqueued(send)
    with pytest.raises(AssertionError) as failed:
        kit.assert_enqueued(send)
    assert message(failed) == ["send was not enqueued", "no job of send was enqueued"]
    send.enqueue("a@example.com")
    kit.assert_enqueued(send)
    kit.assert_enqueued("send")


def test_arguments_are_those_that_the_handler_receives(kit, send):
    """Decoded, with the handler's own defaults; those that are not named may be anything."""
    send.enqueue("a@example.com", where=Address("Rome"))
    kit.assert_enqueued(send, to="a@example.com")
    kit.assert_enqueued(send, subject="hello", where=Address("Rome"))
    kit.assert_not_enqueued(send, to="a@example.com", where=None)


def test_options_are_compared_too(kit, send):
    send.options(delay=60, key="k", tags=["urgent"]).enqueue("a@example.com")
    at = kit.clock.now() + timedelta(minutes=1)
    kit.assert_enqueued(send, queue="mail", key="k", delay=60, at=at, tags=["urgent"])
    kit.assert_enqueued(send, delay=timedelta(minutes=1), tags=["urgent", "letters"])
    for other in ({"queue": "default"}, {"key": "l"}, {"delay": 0}, {"at": kit.clock.now()}, {"tags": ["slow"]}):
        kit.assert_not_enqueued(send, **other)


def test_arguments_with_the_names_of_options_go_apart(app, kit):
    app.tasks["move"].enqueue(queue="left", at=7)
    kit.assert_enqueued(app.tasks["move"], queue="default", arguments={"queue": "left", "at": 7})
    kit.assert_not_enqueued(app.tasks["move"], arguments={"queue": "right"})


def test_the_failure_tells_what_was_enqueued_instead(app, kit, send):
    send.enqueue("a@example.com", subject="hi")
    send.options(queue="slow", key="k", delay=90).enqueue("b@example.com")
    app.tasks["move"].enqueue("left", 7)
    kit.drain()
    with pytest.raises(AssertionError) as failed:
        kit.assert_enqueued(send, to="b@example.com", queue="mail")
    assert message(failed) == [
        "send with to='b@example.com', queue='mail' was not enqueued",
        "jobs of send:",
        "  to='a@example.com', subject='hi', queue='mail', tags=('letters',) (completed) <- differs: to",
        "  to='b@example.com', queue='slow', key='k', tags=('letters',), delay=90 (scheduled) <- differs: queue",
        "other tasks: move (1)",
    ]


def test_the_number_of_times_is_exact(kit, send):
    for _ in range(2):
        send.enqueue("a@example.com")
    kit.assert_enqueued(send, times=2)
    kit.assert_enqueued(send, times=0, to="b@example.com")
    with pytest.raises(AssertionError, match="send was enqueued 2×, not 1×"):
        kit.assert_enqueued(send, times=1)
    with pytest.raises(AssertionError, match="send should not have been enqueued and was, 2×"):
        kit.assert_not_enqueued(send)


@pytest.mark.parametrize("name", ["too", "ctx"])
def test_a_misspelt_argument_is_no_expectation(kit, send, name):
    """Else `assert_not_enqueued` would hold for ever."""
    with pytest.raises(AssertionError, match=f"send has no parameter '{name}'; it takes to, subject, where"):
        kit.assert_not_enqueued(send, **{name: "a@example.com"})


def test_a_task_of_another_app_is_refused(kit):
    with pytest.raises(UnknownTaskError, match="no task 'sned'; it has send, log_in, move"):
        kit.assert_enqueued("sned")


def test_secrets_are_compared_and_not_told(app, kit):
    log_in = app.tasks["log_in"]
    log_in.enqueue("ann", "swordfish")
    kit.assert_enqueued(log_in, password="swordfish")
    with pytest.raises(AssertionError) as failed:
        kit.assert_enqueued(log_in, user="bob")
    assert "swordfish" not in str(failed.value)
    assert "swordfish" not in repr(kit.enqueued())


def test_what_was_enqueued_can_be_looked_at(kit, send):
    """In the order of the enqueues, run or not, however many there are."""
    first = send.enqueue("a@example.com", subject="hi")
    kit.drain()
    send.enqueue_many({"to": f"{number}@example.com"} for number in range(600))
    found = kit.enqueued(send)
    assert [job.arguments["to"] for job in found] == ["a@example.com", *(f"{n}@example.com" for n in range(600))]
    assert (found[0].id, found[0].state, found[0].queue) == (first.id, State.COMPLETED, "mail")
    assert found[0].arguments == {"to": "a@example.com", "subject": "hi"}
    assert kit.job(first.id) == kit.job(first)
