"""The two apps: the same answers by ASGI and by WSGI, the guard before anything else, and nothing said too much."""

import asyncio
import json
import os
from datetime import timedelta
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import pytest
import uvicorn

from forking import run_forking
from standfast import Standfast
from standfast.dashboard import Dashboard
from standfast.errors import ConfigurationError
from standfast.hosts.asgi import bind
from standfast.observe.health.endpoints import Health
from standfast.stores.values import WorkerInfo

TOKEN = "a-token-that-nobody-guesses"
RIGHT = f"Bearer {TOKEN}"
PEER = "203.0.113.9"


@pytest.fixture
def app():
    with Standfast("memory://") as made:
        yield made


@pytest.fixture
def worked(app):
    """An app that somebody works for, and with a job that waits."""
    app.call(app.verbs.register(WorkerInfo("worker-one", "s1", "secret-host", 424242424242, timedelta(seconds=15))))
    app.task(send, queue="mail").enqueue("secret-argument")
    return app


def send(to: str) -> None:
    """Serve as a task."""


def by_asgi(health, path, method="GET", authorization=RIGHT, peer=PEER, **more):
    sent = []

    async def take(message):
        sent.append(message)

    given = [] if authorization is None else [(b"authorization", authorization.encode())]
    headers = [*given, *more.pop("headers", [])]
    client = None if peer is None else [peer, 1234]
    scope = {"type": "http", "method": method, "path": path, "headers": headers, "client": client, **more}
    asyncio.run(health.asgi(scope, None, take))
    start, body = sent
    return start["status"], {name.decode(): value.decode() for name, value in start["headers"]}, body["body"]


def by_wsgi(health, path, method="GET", authorization=RIGHT, peer=PEER, **more):
    mounted = {"SCRIPT_NAME": "/ops", "PATH_INFO": path, "QUERY_STRING": ""}
    environ = {**mounted, "REQUEST_METHOD": method, "REMOTE_ADDR": peer or "", **more}
    setup_testing_defaults(environ)
    if authorization is not None:
        environ["HTTP_AUTHORIZATION"] = authorization
    begun = []
    answer = validator(health.wsgi)(environ, lambda status, headers, _error=None: begun.append((status, headers)))
    body = b"".join(answer)
    answer.close()
    [(status, headers)] = begun
    return int(status.split()[0]), {name.lower(): value for name, value in headers}, body


both = pytest.mark.parametrize("ask", [by_asgi, by_wsgi])


class TestConstruction:
    def test_without_a_token_and_networks_it_is_refused(self, app):
        for given in ({}, {"networks": []}):
            with pytest.raises(ConfigurationError, match="behind a proxy on the same machine every peer"):
                Health(app, **given)

    @pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf")])
    def test_a_rate_that_is_none_is_refused(self, app, rate):
        with pytest.raises(ConfigurationError, match="rate is requests a second"):
            Health(app, token=TOKEN, rate=rate)

    def test_what_is_no_app_is_refused_and_not_shown(self):
        with pytest.raises(ConfigurationError, match=r"not about a str$"):
            Health("postgresql://app:secret@db/jobs", token=TOKEN)

    def test_the_token_is_not_shown(self, app):
        health = Health(app, token=TOKEN)
        assert TOKEN not in repr(health)
        with pytest.raises(ConfigurationError, match="did you mean token"):
            Health(app, tokens=TOKEN)


@both
class TestAnswers:
    def test_a_process_that_answers_is_alive(self, app, ask):
        status, headers, body = ask(Health(app, token=TOKEN), "/livez")
        assert (status, json.loads(body)) == (200, {"status": "ok"})
        assert headers == {
            "content-type": "application/json",
            "content-length": str(len(body)),
            "cache-control": "no-store",
            "x-content-type-options": "nosniff",
        }

    def test_it_is_ready_while_somebody_works(self, worked, ask):
        health = Health(worked, token=TOKEN)
        assert ask(health, "/readyz")[0] == 200
        assert ask(Health(Standfast("memory://"), token=TOKEN), "/readyz")[0] == 503

    def test_its_health_in_full(self, worked, ask):
        status, _, body = ask(Health(worked, token=TOKEN), "/healthz")
        fields = json.loads(body)
        assert status == 200
        assert fields.keys() == {"status", "version", "time", "last_beat", "lag", "workers", "queues", "checks"}
        assert (fields["status"], fields["workers"], list(fields["queues"])) == ("ok", 1, ["mail"])
        assert 0 <= fields["queues"]["mail"]["age"] == fields["lag"] < 60

    def test_nothing_sensitive_is_in_an_answer(self, worked, ask):
        for path in ("/livez", "/readyz", "/healthz", "/nothing"):
            told = repr(ask(Health(worked, token=TOKEN), path))
            for secret in (TOKEN, "secret", "worker-one", "424242424242", "memory", "send", os.uname().nodename):
                assert secret not in told

    def test_in_a_host_its_worker_has_to_be_warm(self, worked, ask):
        class Host:
            state = "starting"

        health = Health(worked, token=TOKEN, host=Host)
        assert ask(health, "/readyz")[0] == 503
        Host.state = "working"
        assert ask(health, "/readyz")[0] == 200
        assert ask(health, "/livez")[0] == 200

    @pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz", "/nothing"])
    @pytest.mark.parametrize("authorization", [RIGHT, None, "Bearer wrong"])
    def test_head_is_get_without_the_body(self, app, ask, path, authorization):
        got = ask(Health(app, token=TOKEN, rate=100), path, authorization=authorization)
        head = ask(Health(app, token=TOKEN, rate=100), path, "HEAD", authorization=authorization)
        assert head[0] == got[0]
        assert head[2] == b""
        del got[1]["content-length"]
        assert int(head[1].pop("content-length")) > 0
        assert head[1] == got[1]

    @pytest.mark.parametrize(
        "path",
        [
            "",
            "/",
            "//livez",
            "/livez/",
            "/livez/../healthz",
            "/%2e/livez",
            "/LIVEZ",
            "/livez\x00",
            "/é",
            "/" * 90_000,
        ],
    )
    def test_odd_paths_are_nothing(self, app, ask, path):
        status, _, body = ask(Health(app, token=TOKEN), path)
        assert (status, json.loads(body)) == (404, {"error": "there is nothing here"})

    @pytest.mark.parametrize("method", ["POST", "DELETE", "OPTIONS", "TRACE"])
    def test_it_is_only_to_be_read(self, app, ask, method):
        status, headers, _ = ask(Health(app, token=TOKEN), "/livez", method)
        assert (status, headers["allow"]) == (405, "GET, HEAD")


@both
class TestStrangers:
    @pytest.mark.parametrize("path", ["/livez", "/healthz", "/nothing", "//livez"])
    @pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
    def test_they_learn_nothing_from_what_they_ask(self, app, ask, path, method):
        told = {
            repr(ask(Health(app, token=TOKEN), *asked, authorization=None)[0]) for asked in ((path, method), ("/",))
        }
        assert told == {"401"}
        assert ask(Health(app, networks=["10.0.0.0/8"]), path, method, authorization=None)[0] == 403

    def test_what_they_say_of_where_they_come_from_is_not_believed(self, app, ask):
        health = Health(app, networks=["127.0.0.0/8"], rate=100)
        forged = ("X-Forwarded-For", "Forwarded", "X-Real-IP", "X-Client-IP", "True-Client-IP", "CF-Connecting-IP")
        for name in forged:
            value = "for=127.0.0.1" if name == "Forwarded" else "127.0.0.1"
            as_asgi = {"headers": [(name.lower().encode(), value.encode())]}
            as_wsgi = {f"HTTP_{name.upper().replace('-', '_')}": value}
            assert ask(health, "/livez", **(as_asgi if ask is by_asgi else as_wsgi))[0] == 403
        assert ask(health, "/livez", peer=None)[0] == 403
        assert ask(health, "/livez", peer="::ffff:127.0.0.1")[0] == 200

    def test_a_token_in_the_url_is_none(self, app, ask):
        query = f"token={TOKEN}&access_token={TOKEN}"
        more = {"query_string": query.encode()} if ask is by_asgi else {"QUERY_STRING": query}
        assert ask(Health(app, token=TOKEN), "/livez", authorization=None, **more)[0] == 401

    def test_too_often_is_told_with_when_to_come_again(self, app, ask):
        health = Health(app, token=TOKEN, rate=0.1)
        codes = [ask(health, "/livez")[0] for _ in range(6)]
        assert codes == [200] * 5 + [429]
        assert 1 <= int(ask(health, "/livez", "HEAD")[1]["retry-after"]) <= 10


class TestAsgi:
    def test_mounted_it_knows_its_paths(self, app):
        health = Health(app, token=TOKEN)
        assert by_asgi(health, "/ops/livez", root_path="/ops")[0] == 200
        assert by_asgi(health, "/livez", root_path="/ops")[0] == 200
        assert by_asgi(health, "/opslivez", root_path="/ops")[0] == 404
        assert by_asgi(health, "/ops/ops/livez", root_path="/ops")[0] == 404

    async def test_it_goes_along_with_a_server(self, app):
        said, heard = [], iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])

        async def receive():
            return next(heard)

        async def send(message):
            said.append(message["type"])

        await Health(app, token=TOKEN).asgi({"type": "lifespan"}, receive, send)
        assert said == ["lifespan.startup.complete", "lifespan.shutdown.complete"]

    async def test_a_websocket_is_closed(self, app):
        said = []

        async def send(message):
            said.append(message)

        await Health(app, token=TOKEN).asgi({"type": "websocket"}, None, send)
        assert said == [{"type": "websocket.close", "code": 1008}]


FORKED = """
import sys
from standfast import Standfast
from standfast.observe.health import Health
from standfast.observe.health.endpoints import Request

app = Standfast(f"sqlite:///{sys.argv[1]}/jobs.db")
app.prepare()
health = Health(app, networks=["127.0.0.1"])
request = Request("GET", "/readyz", "127.0.0.1")
own = health._own()

def ask():
    assert health.answer(request).status == 503

with own.looks._lock, own.answers._guard._admitted._lock:
    child = fork(ask)
assert well(child)
app.close()
"""


def test_a_fork_in_the_middle_of_a_look_serves_all_the_same(tmp_path):
    """A server may fork its workers after it has loaded the app: each has looks and buckets of its own."""
    run_forking(FORKED, tmp_path)


def test_a_server_finds_out_which_asgi_it_is(app):
    """A method would be taken for an app of ASGI 2, and fail at the first request."""
    dashboard = Dashboard(app, token=TOKEN)
    for web in (Health(app, token=TOKEN).asgi, dashboard.asgi, bind(dashboard.asgi, app)):
        config = uvicorn.Config(web, log_config=None)
        config.load()
        assert config.interface == "asgi3", web
