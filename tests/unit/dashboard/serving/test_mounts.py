"""Mounted in an app of the user's: its people come in as the host says, and see and do all of it below a path."""

import re
import sys

import flask
import httpx
import pytest
from fastapi import FastAPI
from serving_stage import HOME, csrf_in, place_of
from werkzeug.middleware.dispatcher import DispatcherMiddleware

import standfast.dashboard
from standfast.dashboard import Dashboard, Role, User
from standfast.errors import ConfigurationError
from standfast.model.states import State

PEOPLE = {"ada": User("ada", Role.OPERATOR), "carol": User("carol", Role.VIEWER)}


def who(request):
    """Tell who it is by the cookie of the host's own session."""
    return PEOPLE.get(request.cookies.get("host_session"))


class Fastapi:
    """A client of a FastAPI app with the dashboard at /jobs."""

    streams = True

    def __init__(self, stage, dashboard):
        web = FastAPI()
        web.mount("/jobs", dashboard.asgi)
        self._stage, self._client = stage, httpx.AsyncClient(transport=httpx.ASGITransport(web), base_url=HOME)

    def ask(self, method, path, **more):
        return self._stage.wait(self._client.request(method, path, **more))


class Flask:
    """A client of a Flask app with the dashboard at /jobs."""

    streams = False

    def __init__(self, _stage, dashboard):
        web = flask.Flask("shop")
        web.wsgi_app = DispatcherMiddleware(web.wsgi_app, {"/jobs": dashboard.wsgi})
        self._client = httpx.Client(transport=httpx.WSGITransport(web), base_url=HOME)

    def ask(self, method, path, **more):
        return self._client.request(method, path, **more)


@pytest.fixture(params=[Fastapi, Flask])
def host(request, stage):
    return request.param(stage, Dashboard(stage, auth=who))


def seen_by(name):
    return {"cookie": f"host_session={name}", "origin": HOME, "accept": "text/html"}


def test_the_hosts_people_see_and_act_below_the_path(host, stage):
    job = stage.dead()
    page = host.ask("GET", f"/jobs/jobs/{job}", headers=seen_by("ada"))
    assert page.status_code == 200, page.text
    links = re.findall(r'(?:href|action|src)="(/[^"]*)"', page.text)
    assert [link for link in links if not link.startswith("/jobs/")] == []
    for file in {link for link in links if "/static/" in link}:
        assert "immutable" in host.ask("GET", file).headers["cache-control"]
    assert "sign-out" not in page.text  # they signed in elsewhere
    form = {"id": job, "csrf": csrf_in(page), "back": f"/jobs/{job}"}
    done = host.ask("POST", "/jobs/do/jobs.retry", data=form, headers=seen_by("ada"))
    assert place_of(done) == f"/jobs/jobs/{job}"
    assert stage.job(job).state is State.READY
    assert [each.who for each in stage.read("audit.list").entries] == ["ada"]


def test_others_do_not(host, stage):
    job = stage.dead()
    stranger = host.ask("GET", "/jobs/queues", headers={"accept": "text/html"})
    assert place_of(stranger) == "/jobs/sign-in?next=%2Fjobs%2Fqueues"
    assert "Sign in to the site" in host.ask("GET", "/jobs/sign-in").text
    page = host.ask("GET", f"/jobs/jobs/{job}", headers=seen_by("carol"))
    form = {"id": job, "csrf": csrf_in(page)}
    host.ask("POST", "/jobs/do/jobs.retry", data=form, headers=seen_by("carol"))
    host.ask("POST", "/jobs/do/jobs.retry", data=form, headers=seen_by("ada"))  # the token is carol's
    host.ask("POST", "/jobs/do/jobs.retry", data=form)
    assert stage.job(job).state is State.DEAD


def test_pages_refresh_also_where_nothing_streams(host):
    """WSGI has no answers that go on: live updates are refused at once, and the script asks for frames."""
    frame = host.ask("GET", "/jobs/frame?at=/queues", headers=seen_by("ada"))
    assert (frame.status_code, "<main" in frame.text) == (200, True)
    if not host.streams:
        refused = host.ask("GET", "/jobs/live?at=/queues", headers=seen_by("ada"))
        assert (refused.status_code, refused.text) == (501, "no live updates here: ask for /frame\n")


def test_nobody_comes_in_unknown(stage):
    with pytest.raises(ConfigurationError, match="who may come in"):
        Dashboard(stage)


def test_a_hosts_auth_that_fails_lets_nobody_in(stage):
    def broken(_request):
        raise LookupError("of the test")

    host = Fastapi(stage, Dashboard(stage, auth=broken))
    assert host.ask("GET", "/jobs/", headers=seen_by("ada")).status_code == 403


def test_without_the_extra_it_is_told_how_to_get_it(monkeypatch):
    """Who imports it is not left with the name of a package that they have never heard of."""
    monkeypatch.delitem(sys.modules, "standfast.dashboard.dashboard")
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    with pytest.raises(ModuleNotFoundError, match=re.escape("`pip install -e 'path/to/the/clone[web]'`")):
        standfast.dashboard.Dashboard  # noqa: B018 - it is imported here
