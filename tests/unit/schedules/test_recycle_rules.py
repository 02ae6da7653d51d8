"""`app.recycle`: when worker processes are replaced and when not, and what is refused."""

import pytest

from standfast import Cron, Standfast, Window
from standfast.errors import ConfigurationError
from standfast.schedules.closed_hours import RecycleRules

NIGHT = Cron("0 3 * * *")
DAY = Window("08:00", "20:00")


@pytest.fixture
def app() -> Standfast:
    return Standfast("memory://")


def test_what_is_declared(app: Standfast) -> None:
    assert app.recycle_rules == RecycleRules()
    app.recycle(at=NIGHT, never=DAY)
    assert app.recycle_rules == RecycleRules(NIGHT, (DAY,))


def test_several_windows(app: Standfast) -> None:
    app.recycle(never=[DAY, Window("22:00", "23:00")])
    assert app.recycle_rules == RecycleRules(None, (DAY, Window("22:00", "23:00")))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"at": "0 3 * * *"}, "at must be a rule such as Cron, as in app.recycle(at=Cron("),
        ({"never": "08:00-20:00"}, "never must be a Window, or several in a tuple, as in"),
        ({"never": (DAY, None)}, "never must be a Window, or several in a tuple"),
        ({"never": (DAY, Window("19:00", "09:00"))}, "never: together they leave no time at all"),
        ({"when": NIGHT}, "when"),
    ],
)
def test_what_is_refused(app: Standfast, given, words) -> None:
    with pytest.raises(ConfigurationError) as caught:
        app.recycle(**given)
    assert words in str(caught.value)


def test_twice_is_once_too_often(app: Standfast) -> None:
    app.recycle(at=NIGHT)
    with pytest.raises(ConfigurationError, match="called twice"):
        app.recycle(never=DAY)
