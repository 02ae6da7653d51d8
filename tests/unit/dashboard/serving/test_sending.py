"""Files on their way: each who asks gets the whole of it, who goes away ends it, and none breaks off unnoticed."""

import asyncio
import json

import pytest
from serving_stage import HOME, TOKEN, House

from standfast.admin import job_search
from standfast.errors import StoreUnavailableError

BEARER = f"Bearer {TOKEN}"


@pytest.fixture
def house(stage):
    return House(stage, token=TOKEN)


@pytest.fixture
def looks(stage, monkeypatch):
    """Return the looks at the store so far, each at one job; there are many jobs."""
    made, search = [], stage.backend.verbs.list_jobs
    monkeypatch.setattr(job_search, "_PAGE", 1)
    monkeypatch.setattr(stage.backend.verbs, "list_jobs", lambda *which: made.append(which) or search(*which))
    for _ in range(50):
        stage.enqueue()
    return made


class Viewer:
    """Somebody who asks for a file by ASGI, and hangs up after some parts of it."""

    def __init__(self, app, most):
        self._app, self._most, self._gone = app, most, asyncio.Event()
        self.parts = []

    async def ask(self):
        headers = [(b"host", HOME.partition("//")[2].encode()), (b"authorization", BEARER.encode())]
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/api/v1/jobs/export",
            "query_string": b"",
            "scheme": "http",
        }
        asked = iter([{"type": "http.request", "body": b"", "more_body": False}])

        async def receive():
            for message in asked:
                return message
            await self._gone.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            self.parts.append(message)
            if len(self.parts) > self._most:
                self._gone.set()
            await asyncio.sleep(0)

        await self._app({**scope, "headers": headers, "client": ("127.0.0.1", 5000)}, receive, send)


def test_two_who_ask_at_the_same_time_get_all_of_it(house, stage, looks):
    """What others have just seen is shared, but not a file that is half read."""
    browser = house.browser(authorization=BEARER)

    async def both():
        client = browser._client
        return await asyncio.gather(*(client.get("/api/v1/jobs/export") for _ in range(2)))

    answers = stage.wait(both())
    assert [len(answer.json()) for answer in answers] == [50, 50]
    assert answers[0].headers["x-standfast-limit"] == "100000"
    assert "content-length" not in answers[0].headers
    assert len(looks) >= 100


def test_who_goes_away_ends_it(house, stage, looks):
    """The store is not read on for nobody."""
    viewer = Viewer(house.dashboard.asgi, 5)
    stage.wait(viewer.ask())
    assert len(looks) < 15
    assert all(part.get("more_body", True) for part in viewer.parts[1:])


def test_a_head_is_no_reason_to_read_it(house, looks):
    answer = house.browser(authorization=BEARER).head("/jobs/export")
    assert (answer.status_code, answer.headers["content-disposition"]) == (200, 'attachment; filename="jobs.json"')
    assert len(looks) <= 1


def test_a_store_that_fails_on_the_way_leaves_no_whole_file(house, stage, looks, monkeypatch):
    """Neither does the answer end as if that were all; at the beginning it is told."""
    search = stage.backend.verbs.list_jobs

    def failing(*which):
        if len(looks) >= 3:
            raise StoreUnavailableError("the store is gone")
        return search(*which)

    monkeypatch.setattr(stage.backend.verbs, "list_jobs", failing)
    viewer = Viewer(house.dashboard.asgi, 1000)
    with pytest.raises(StoreUnavailableError):
        stage.wait(viewer.ask())
    assert all(part.get("more_body", True) for part in viewer.parts[1:])
    assert house.browser(authorization=BEARER).get("/api/v1/jobs/export").status_code == 503


def test_by_wsgi_it_is_sent_in_parts_and_ends_with_who_asked(house, looks):
    """A server closes what nobody waits for any more."""
    environ = {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": "/api/v1/jobs/export",
        "HTTP_HOST": "127.0.0.1:8080",
        "HTTP_AUTHORIZATION": BEARER,
        "REMOTE_ADDR": "127.0.0.1",
    }
    whole = list(house.dashboard.wsgi(dict(environ), lambda *_: None))
    assert (len(json.loads(b"".join(whole))), len(whole) > 50) == (50, True)
    looks.clear()
    answer = house.dashboard.wsgi(dict(environ), lambda *_: None)
    parts = iter(answer)
    for _ in range(3):
        next(parts)
    answer.close()
    assert len(looks) < 15
