"""Those who watch get a frame when something has changed, and only then; when their session ends, so does it."""

from typing import Any

import pytest
from starlette.requests import Request
from web_samples import EMPTY, FULL, OPERATIONS, SampleDesk

from standfast.dashboard.web.live import BEAT, LiveStream, event_of
from standfast.dashboard.web.site import Site


class Watched:
    """A gallery whose time passes when it sleeps; `ticks` says what happens before each look but the first."""

    def __init__(self, desk: SampleDesk, ticks: list[Any], at: str = "/queues") -> None:
        self.now = 1001.5
        self.ticks = ticks
        self.naps: list[float] = []
        self.request = Request(
            {"type": "http", "method": "GET", "headers": [], "query_string": f"at={at}".encode()}
        )
        self.gallery = LiveStream(
            Site(OPERATIONS, lambda _: desk, still_in=self.still), clock=lambda: self.now, sleep=self.sleep
        )

    async def still(self, _request: Request) -> bool:
        return self.ticks is not None

    async def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.now += seconds
        if self.ticks:
            self.ticks.pop(0)()
        else:
            self.ticks = None

    async def events(self) -> list[str]:
        return [event async for event in self.gallery.events(self.request)]


def nothing() -> None:
    pass


async def test_only_what_changed_is_sent():
    desk = SampleDesk(dict(FULL))
    change = lambda: desk.answers.update({"queues.list": EMPTY["queues.list"]})  # noqa: E731
    watched = Watched(desk, [nothing, change, nothing])
    events = await watched.events()
    assert [event.partition("\n")[0] for event in events] == ["event: frame", "event: frame", "event: end"]
    assert "images" in events[0]
    assert "images" not in events[1].partition("<main")[2]


async def test_all_look_at_the_same_ticks():
    watched = Watched(SampleDesk(FULL), [nothing])
    await watched.events()
    assert watched.naps == [0.5, 2.0]


async def test_a_beat_is_sent_where_nothing_happens():
    watched = Watched(SampleDesk(FULL), [nothing] * 9)
    events = await watched.events()
    assert events.count(": beat\n\n") == 1
    assert BEAT <= 15


async def test_a_frame_is_the_part_of_a_page_that_changes():
    (frame, _) = await Watched(SampleDesk(FULL), [], "/jobs%3Fstate%3Ddead").events()
    assert "<html" not in frame
    assert all(each in frame for each in ("<title>", 'id="verdict"', 'id="nav"', "<main"))
    assert all(line.startswith(("event: ", "data: ")) for line in frame.rstrip("\n").split("\n"))


async def test_updates_are_in_the_language_that_the_page_was_asked_for():
    (frame, _) = await Watched(SampleDesk(FULL), [], "/audit%3Flang%3Dzh-Hant").events()
    assert "稽核" in frame
    assert "Audit" not in frame


async def test_a_page_that_is_not_there_is_told_and_not_raised():
    (frame, _) = await Watched(SampleDesk(FULL), [], "/nowhere").events()
    assert "there is no such page" in frame


async def test_there_are_so_many_places_and_who_leaves_frees_one():
    watched = Watched(SampleDesk(FULL), [])
    gallery = watched.gallery
    gallery.places = 1
    seated = gallery._seated(watched.request)
    await anext(seated)
    assert (await gallery.watch(watched.request)).status_code == 503
    assert [event async for event in gallery._seated(watched.request)] == []
    await seated.aclose()
    assert gallery.watching == 0
    assert (await gallery.watch(watched.request)).status_code == 200


def test_every_line_of_an_event_is_data():
    assert event_of("frame", "a\n\nb") == "event: frame\ndata: a\ndata: \ndata: b\n\n"
    assert event_of("end", "") == "event: end\ndata: \n\n"


@pytest.mark.parametrize(("took", "until"), [(0.0, 102.0), (0.05, 102.0), (0.1, 104.0), (9.0, 106.0)])
def test_a_page_that_takes_long_is_looked_at_more_seldom(took, until):
    """At ticks still, and never more seldom than people notice."""
    gallery = LiveStream(None, clock=lambda: 100.5)
    assert 100.5 + gallery.pause(took) == until
