"""`tasks`: what tasks there are, from the store alone."""

from datetime import UTC, datetime

import pytest
from cli_world import answer

from standfast.observe.catalogue import Bound, Catalogue, Parameter, TaskEntry, publish
from standfast.stores.verb import run_procedure

MAIL = TaskEntry(
    "shop.mail",
    queue="mail",
    max_attempts=4,
    timeout=30.0,
    backoff="5 s each time",
    retry_on=("OSError",),
    discard_on=("KeyError",),
    start_within=120.0,
    on_late="expire",
    keep_result=60.0,
    isolation="process",
    memory=100_000_000,
    doc="Send what has to be sent.",
    parameters=(
        Parameter("to", "str"),
        Parameter("count", "int", required=False, default="3"),
        Parameter("card", "str", required=False, secret=True),
    ),
    schedules=("nightly",),
    limit=Bound(2, ("1 at 03:00–03:15 UTC",)),
    gates=("disk",),
    windows=("01:00–02:00 UTC",),
)


@pytest.fixture
def catalogue(world):
    """Publish two tasks, one of them of a release that is not the newest."""
    now = datetime.now(UTC)
    for release, tasks in (("1", (TaskEntry("shop.old"),)), ("2", (MAIL,))):
        told = Catalogue("shop", release, now.replace(microsecond=int(release)), "web-01", "0.1.0", tasks)
        run_procedure(world.do, publish(world.verbs, told))


@pytest.mark.usefixtures("world")
def test_where_nobody_has_published_it_is_said_how(standfast):
    assert "No worker has published a task; start one with" in standfast("tasks").stdout
    assert answer(standfast("tasks", "--json")) == []
    refused = standfast("tasks", "show", "x")
    assert refused.exit_code == 1
    assert "no worker has published a task 'x'" in refused.stderr


@pytest.mark.usefixtures("catalogue")
def test_tasks_are_listed(standfast):
    head, _, mail, old = standfast("tasks", env={"COLUMNS": "140"}).stdout.splitlines()
    assert {"TASK", "QUEUE", "ATTEMPTS", "PARAMETERS"} <= set(head.split())
    for word in ("shop.mail", "mail", "4", "to, [count], [card]", "Send what has to be sent."):
        assert word in mail
    assert "shop.old" in old
    assert standfast("tasks").stdout == standfast("tasks", "list").stdout


@pytest.mark.usefixtures("catalogue")
def test_tasks_for_programs(standfast):
    mail, old = answer(standfast("tasks", "--json"))
    assert (mail["name"], mail["queue"], mail["app"], mail["release"]) == ("shop.mail", "mail", "shop", "2")
    assert mail["parameters"][1] == {
        "name": "count",
        "type": "int",
        "required": False,
        "default": "3",
        "secret": False,
    }
    assert (mail["current"], old["current"]) == (True, False)
    assert answer(standfast("tasks", "show", "shop.mail", "--json")) == mail


@pytest.mark.usefixtures("catalogue")
def test_one_is_shown_with_all_that_is_known_of_it(standfast):
    said = standfast("tasks", "show", "shop.mail", env={"COLUMNS": "120"}).stdout
    for words in (
        "Send what has to be sent.",
        "mail, priority 0",
        "4, after waits of 5 s each time",
        "after OSError alone",
        "after KeyError",
        "after 2 min: expire",
        "kept for 1 min",
        "process, 100 MB of memory at most",
        "2 at a time in each process; 1 at 03:00–03:15 UTC",
        "disk",
        "01:00–02:00 UTC",
        "nightly",
        "shop, release 2",
        "required",
        "(not shown)  secret",
    ):
        assert words in said, words
    assert "release 1; the newest does not have it" in standfast("tasks", "show", "shop.old").stdout


@pytest.mark.usefixtures("catalogue")
def test_a_slip_of_the_keyboard_is_guessed(standfast):
    refused = standfast("tasks", "show", "shop.mial")
    assert refused.exit_code == 1
    assert "did you mean shop.mail?" in refused.stderr
