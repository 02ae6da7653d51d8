"""Who has changed something sees that at once, by whichever process of a server the next page comes."""

from types import SimpleNamespace

import pytest
from serving_stage import TOKEN, House, csrf_in

from standfast.dashboard.web import cookies

SECRET = "shared by all processes of a server"


@pytest.fixture
def houses(stage):
    """Return two processes of one server."""
    return [House(stage, token=TOKEN, secret=SECRET) for _ in range(2)]


def test_another_process_shows_what_was_just_done(houses):
    """It has seen the store a moment ago, when it was not done yet."""
    one, two = (house.browser() for house in houses)
    one.post("/sign-in", {"token": TOKEN})
    two._client.cookies.update(one._client.cookies)  # one browser, and a balancer before two processes
    two._client.headers["accept"] = "application/json"
    assert two.get("/api/v1/queues").json()["queues"] == []
    csrf = csrf_in(one.get("/queues"))
    one.post("/do/queues.pause", {"name": "mail", "csrf": csrf})
    two._client.cookies.update(one._client.cookies)
    assert [queue["name"] for queue in two.get("/api/v1/queues").json()["queues"]] == ["mail"]


def test_others_share_what_was_seen(houses, stage, monkeypatch):
    """Only the browser that changed something costs the store a look of its own."""
    browser, looks = houses[0].browser(authorization=f"Bearer {TOKEN}"), []
    ages = stage.backend.verbs.queue_ages
    monkeypatch.setattr(stage.backend.verbs, "queue_ages", lambda: looks.append(1) or ages())
    for _ in range(3):
        assert browser.get("/queues").status_code == 200
    assert len(looks) == 1
    for _ in range(3):
        browser.get("/queues", cookie=f"{cookies.CHANGED_COOKIE}=1")
    assert len(looks) == 4


class Asked:
    """A request of a browser that has just changed something."""

    def __init__(self):
        self.cookies, self.state = {cookies.CHANGED_COOKIE: "1"}, SimpleNamespace()


def test_who_watches_on_shares_again(monkeypatch):
    now = 100.0
    monkeypatch.setattr(cookies.time, "monotonic", lambda: now)
    request = Asked()
    assert cookies.has_changed(request)
    now += cookies.CHANGED_FOR
    assert not cookies.has_changed(request)
