"""`app.recycle`: when worker processes are replaced and when not, and what is refused."""

import pytest

from holdfast import Cron, Holdfast, Window
from holdfast.errors import ConfigurationError
from holdfast.schedule.recycle import RecycleRules

NIGHT = Cron("0 3 * * *")
DAY = Window("08:00", "20:00")


@pytest.fixture
def app() -> Holdfast:
    return Holdfast("memory://")


def test_what_is_declared(app: Holdfast) -> None:
    assert app.recycle_rules == RecycleRules()
    app.recycle(at=NIGHT, never=DAY)
    assert app.recycle_rules == RecycleRules(NIGHT, (DAY,))


def test_several_windows(app: Holdfast) -> None:
    app.recycle(never=[DAY, Window("22:00", "23:00")])
    assert app.recycle_rules == RecycleRules(None, (DAY, Window("22:00", "23:00")))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"at": "0 3 * * *"}, "at must be a rule such as Cron, as in app.recycle(at=Cron("),
        ({"never": "08:00-20:00"}, "never must be a Window, or several in a tuple, as in"),
        ({"never": (DAY, None)}, "never must be a Window, or several in a tuple"),
        ({"never": (DAY, Window("19:00", "09:00"))}, "never leaves no time at all"),
        ({"when": NIGHT}, "when"),
    ],
)
def test_what_is_refused(app: Holdfast, given, words) -> None:
    with pytest.raises(ConfigurationError) as caught:
        app.recycle(**given)
    assert words in str(caught.value)


def test_twice_is_once_too_often(app: Holdfast) -> None:
    app.recycle(at=NIGHT)
    with pytest.raises(ConfigurationError, match="called twice"):
        app.recycle(never=DAY)
