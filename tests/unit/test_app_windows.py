"""Windows declared on an app: of queues by `app.queue`, of tasks by the decorator."""

import pytest

from standfast import Standfast, Window
from standfast.errors import ConfigurationError
from standfast.schedules.closed_hours import About, ClosedHours

NIGHT = Window("03:00", "03:15", tz="Asia/Taipei")
NOON = Window("12:00", "13:00")


@pytest.fixture
def app() -> Standfast:
    return Standfast("memory://")


def test_a_queue_is_declared_with_one_window_or_several(app: Standfast) -> None:
    """In the order of declaration."""
    app.queue("mail", window=NIGHT)
    app.queue("reports", window=(NIGHT, NOON))
    assert app.windows == (
        ClosedHours(About.QUEUE, "mail", (NIGHT,)),
        ClosedHours(About.QUEUE, "reports", (NIGHT, NOON)),
    )


def test_a_task_is_declared_with_its_windows(app: Standfast) -> None:
    """Under its own name; a task without windows is not there."""

    @app.task(name="tidy-up", window=[NIGHT, NOON])
    def tidy() -> None: ...

    @app.task
    def other() -> None: ...

    assert app.windows == (ClosedHours(About.TASK, "tidy-up", (NIGHT, NOON)),)


def test_a_queue_and_a_task_may_have_one_name(app: Standfast) -> None:
    """They are not the same thing."""

    @app.task(queue="mail", window=NIGHT)
    def mail() -> None: ...

    app.queue("mail", window=NOON)
    assert [(hours.about, hours.name) for hours in app.windows] == [(About.TASK, "mail"), (About.QUEUE, "mail")]


def test_a_queue_that_is_declared_twice_is_refused(app: Standfast) -> None:
    """With what to write instead; the first declaration stays."""
    app.queue("mail", window=NIGHT)
    with pytest.raises(ConfigurationError, match=r"queue 'mail' is declared twice.*window=\(..., ...\)"):
        app.queue("mail", window=NOON)
    assert app.windows[0].windows == (NIGHT,)


@pytest.mark.parametrize("window", ["03:00-03:15", (), None])
def test_what_is_no_window_is_refused(app: Standfast, window: object) -> None:
    """With an example."""
    with pytest.raises(ConfigurationError, match=r"window=Window\(\"03:00\", \"03:15\""):
        app.queue("mail", window=window)  # type: ignore[arg-type]


def test_a_task_with_a_wrong_window_is_not_registered(app: Standfast) -> None:
    """Nothing is half declared."""
    with pytest.raises(ConfigurationError, match="task 'tidy': window must be a Window"):

        @app.task(window="03:00")  # type: ignore[arg-type]
        def tidy() -> None: ...

    assert (dict(app.tasks), app.windows) == ({}, ())


def test_a_bad_name_and_an_unknown_option_are_refused(app: Standfast) -> None:
    """As everywhere."""
    with pytest.raises(ConfigurationError, match="queue must be 1 to 64 letters"):
        app.queue("e mail", window=NIGHT)
    with pytest.raises(ConfigurationError, match=r"app.queue has no option 'windows'; did you mean window?"):
        app.queue("mail", windows=NIGHT)  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError, match=r"did you mean window?"):
        app.task(windows=NIGHT)  # type: ignore[call-overload]
