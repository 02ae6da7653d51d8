"""Health answers who may ask, and nobody else, whatever they send: on a port of its own, and mounted in web apps.

Strangers ask from a network namespace of the test's own.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from pathlib import Path

import pytest
from foreign_net import ask, foreign_machine
from shopfloor import HERE, PATIENCE, STANDFAST, Shop, environment, eventually

from servers.process import free_port
from standfast import Standfast
from standfast.stores.values import WorkerInfo

TOKEN = "a-token-that-nobody-guesses"
SECRET = "hunter2-hunter2"
RIGHT = {"Authorization": f"Bearer {TOKEN}"}
WRONG = {"Authorization": "Bearer a-token-that-somebody-guessed"}
FORGED = [
    {"X-Forwarded-For": "127.0.0.1"},
    {"X-Forwarded-For": "127.0.0.1, 127.0.0.1"},
    {"X-Real-IP": "127.0.0.1"},
    {"Forwarded": "for=127.0.0.1;host=localhost"},
    {"Host": "localhost"},
    {"X-Forwarded-For": "::1", "X-Forwarded-Host": "localhost", "X-Original-URL": "/livez"},
]
ODD = [
    "/",
    "//livez",
    "/livez/",
    "/livez/../healthz",
    "/./livez",
    "/%2e%2e/livez",
    "/livez%00",
    "/%C3%A9",
    "/" + "a" * 4000,
]
PATHS = ["/livez", "/readyz", "/healthz"]


@pytest.fixture(scope="module")
def foreign():
    with foreign_machine() as machine:
        yield machine


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Give the URL of a store with a live worker and a job that waits."""
    url = f"sqlite:///{tmp_path_factory.mktemp('health')}/jobs.db"
    with Standfast(url) as app:
        app.call(
            app.verbs.register(WorkerInfo("worker-one", "s1", "secret-host", 424242424242, timedelta(hours=1)))
        )
        app.task(send, queue="mail").enqueue(SECRET)
    return url


def send(to: str) -> None:
    """Serve as a task."""


@dataclass(frozen=True)
class Door:
    """A served health: its process with the file that it writes to, its port, and where it is mounted."""

    process: subprocess.Popen
    file: Path
    port: int
    mount: str = ""

    @property
    def log(self):
        return self.file.read_text()

    def ask(self, path, method="GET", headers=None, asker=None):
        given = (self.port, f"{self.mount}{path}", method, headers)
        return ask("127.0.0.1", *given) if asker is None else asker.ask(*given)


@contextmanager
def running(command, folder, **more):
    log = folder / f"{Path(command[0]).name}-{time.monotonic_ns()}.log"
    with log.open("wb") as file:
        process = subprocess.Popen(command, cwd=folder, env=environment(**more), stdout=file, stderr=file)
    try:
        yield process, log
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)


@contextmanager
def health_port(folder, *options, **more):
    with running([STANDFAST, "health", "--port", "0", *options], folder, **more) as (process, log):
        found = eventually(
            lambda: re.search(r"told at http://\S+?:(\d+)/healthz", log.read_text()) or process.poll(), "it serves"
        )
        assert process.poll() is None, log.read_text()
        yield Door(process, log, int(found[1]))
    assert process.returncode == 0, log.read_text()


@contextmanager
def mounted(folder, server, store):
    port = free_port()
    program = str(Path(sys.executable).with_name(server))
    command = {
        "uvicorn": [program, "health_app:asgi", "--host", "0.0.0.0", "--port", str(port), "--app-dir", str(HERE)],
        "gunicorn": [program, "health_app:wsgi", "--bind", f"0.0.0.0:{port}", "--chdir", str(HERE)],
    }[server]
    with running(command, folder, STANDFAST_URL=store, HEALTH_TOKEN=TOKEN) as (process, log):
        eventually(lambda: process.poll() is not None or _listens(port), "the server serves")
        assert process.poll() is None, log.read_text()
        yield Door(process, log, port)


def _listens(port):
    with socket.socket() as trying:
        return trying.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def token_file(tmp_path_factory):
    file = tmp_path_factory.mktemp("token") / "token"
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o600)
    return file


WAYS = ["port", "uvicorn", "gunicorn"]


@pytest.fixture(scope="module")
def doors(tmp_path_factory, store):
    """Give a way to ask for health that is served one way or another; each is started once."""
    with ExitStack() as stack:

        @cache
        def port(*options):
            folder = tmp_path_factory.mktemp("port")
            return stack.enter_context(health_port(folder, "--host", "0.0.0.0", "--url", store, *options))

        @cache
        def web(server):
            return stack.enter_context(mounted(tmp_path_factory.mktemp(server), server, store))

        def door(way, mount, *options):
            return port(*options) if way == "port" else replace(web(way), mount=mount)

        yield door


@pytest.fixture(params=WAYS)
def by_token(request, doors, token_file):
    """Give health that takes a token, served one way after the other."""
    return doors(request.param, "/token", "--token-file", str(token_file))


@pytest.fixture(params=WAYS)
def by_network(request, doors):
    """Give health that is open to this machine alone, though its port is reached from others."""
    return doors(request.param, "/near", "--allow", "127.0.0.0/8", "--allow", "::1")


def unsettled(answer):
    """Return an answer without what differs between two of the same: times, and the server's own headers."""
    status, headers, body = answer
    mine = ("content-type", "cache-control", "x-content-type-options", "www-authenticate", "allow", "retry-after")
    return status, {name: headers.get(name) for name in mine}, body


def test_a_foreign_address_is_refused_whatever_it_sends(by_network, foreign):
    """403 for every path and method, with forged headers and with a token; here, all is answered."""
    expected = paced(by_network, "/livez", "GET", None, foreign)
    assert expected[0] == 403
    assert expected[1]["cache-control"] == "no-store"
    tried = [
        *((path, "GET", None) for path in (*PATHS, *ODD)),
        *((path, "POST", None) for path in PATHS),
        *(("/healthz", "GET", headers) for headers in (*FORGED, RIGHT)),
    ]
    for path, method, headers in tried:
        assert paced(by_network, path, method, headers, foreign) == expected, (path, method, headers)
    for path in (*PATHS, *ODD):
        status, _, body = paced(by_network, path, "HEAD", None, foreign)
        assert (status, body) == (403, b""), path
    assert by_network.ask("/livez")[0] == 200
    assert by_network.ask("/readyz")[0] == 200


def paced(door, path, method, headers, asker):
    """Ask, and ask again later where it was too often; who guesses and comes too soon would wait ever longer."""
    while (answer := door.ask(path, method, headers, asker))[0] == 429:
        time.sleep(int(answer[1]["retry-after"]))
    return unsettled(answer)


def test_a_token_is_needed_from_anywhere(by_token, foreign):
    """401 without one and with a wrong one, also from this machine; with the right one the foreign are answered."""
    for asker in (foreign, None):
        for headers, words in ((None, 'Bearer realm="standfast"'), (WRONG, 'error="invalid_token"')):
            for path, method in (("/healthz", "GET"), ("/nothing", "GET"), ("/livez", "POST")):
                status, told, body = paced(by_token, path, method, headers, asker)
                assert (status, words in told["www-authenticate"]) == (401, True)
                assert b"standfast" not in body
            status, told, body = paced(by_token, "/healthz", "HEAD", headers, asker)
            assert (status, words in told["www-authenticate"], body) == (401, True, b"")
        for headers in FORGED:
            assert paced(by_token, "/livez", "GET", headers, asker)[0] == 401
    paced(by_token, "/livez", "GET", RIGHT, foreign)
    status, headers, body = by_token.ask("/healthz", headers=RIGHT, asker=foreign)
    fields = json.loads(body)
    assert (status, headers["cache-control"], headers["x-content-type-options"]) == (200, "no-store", "nosniff")
    assert (fields["status"], fields["workers"], list(fields["queues"])) == ("ok", 1, ["mail"])
    for path in ODD:
        assert paced(by_token, path, "GET", RIGHT, foreign)[0] == 404, path
        assert paced(by_token, path, "HEAD", RIGHT, foreign)[0] == 404, path
    assert paced(by_token, "/livez", "DELETE", RIGHT, foreign)[0] == 405


@pytest.mark.parametrize("headers", [None, WRONG, RIGHT], ids=["without", "wrong", "right"])
def test_who_asks_too_often_is_told_when_to_come_again(by_token, foreign, headers):
    """429, for GET and HEAD; and who has the token is not kept out by those at its address who have not."""
    otherwise = 200 if headers is RIGHT else 401
    for method in ("GET", "HEAD"):
        assert paced(by_token, "/livez", method, headers, foreign)[0] == otherwise
        status = otherwise
        while status != 429:
            assert status == otherwise
            status, told, body = by_token.ask("/livez", method, headers, foreign)
        assert 1 <= int(told["retry-after"]) <= 10
        assert bool(body) == (method == "GET")
    if headers is not RIGHT:
        assert by_token.ask("/livez", headers=RIGHT, asker=foreign)[0] == 200


def test_no_secret_is_in_an_answer_or_a_log(by_token, foreign):
    """Neither the token nor a wrong one, no argument, no host name, no store, and no process."""
    told = [
        repr(by_token.ask(path, method, headers, asker))
        for asker in (None, foreign)
        for headers in (None, WRONG, RIGHT)
        for path in (*PATHS, "/nothing")
        for method in ("GET", "HEAD")
    ]
    secrets = [
        TOKEN,
        "somebody-guessed",
        SECRET,
        "secret-host",
        "jobs.db",
        "worker-one",
        "424242424242",
        socket.gethostname() + '"',
    ]
    assert [secret for secret in secrets if any(secret in each for each in told)] == []
    assert [secret for secret in (TOKEN, "somebody-guessed", SECRET) if secret in by_token.log] == []


def test_a_store_that_hangs_is_told_of_in_time(tmp_path):
    """It takes connections and says nothing: 503 within seconds, at once for the next ones, and it stays alive."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"redis://user:{SECRET}@127.0.0.1:{mute.getsockname()[1]}/0"
        with health_port(tmp_path, STANDFAST_URL=url) as door:
            status, _, body = door.ask("/healthz")
            assert (status, json.loads(body)["checks"][0]["says"]) == (503, "the store does not answer")
            began_at = time.monotonic()
            assert [door.ask(path)[0] for path in ("/livez", "/readyz", "/readyz")] == [200, 503, 503]
            assert time.monotonic() - began_at < 2.5, "nobody waits anew for a store that hangs"
            assert SECRET not in door.log
            os.kill(door.process.pid, 0)


def test_it_is_ready_while_a_worker_lives(tmp_path):
    """By a real worker: not before it, not after it; the store may be made later than health is asked."""
    with Shop(tmp_path / "shop") as shop, health_port(tmp_path, "--url", shop.url) as door:

        def status():
            return door.ask("/readyz")[0]

        assert status() == 503
        worker = shop.worker()
        eventually(lambda: status() == 200, "it is ready")
        worker.stop()
        eventually(lambda: status() == 503, "it is not ready any more")
        probe = shop.standfast("health", "--once", "--json")
        assert (probe.returncode, json.loads(probe.stdout)["workers"]) == (1, 0)
