"""One line binds a worker to a web app: it starts after what that sets up, and stops before it is torn down."""

import asyncio
import sqlite3
import threading
from contextlib import asynccontextmanager, closing
from functools import partial
from types import FunctionType, SimpleNamespace

import pytest

from standfast import Standfast
from standfast.errors import ConfigurationError
from standfast.hosts import asgi, binding, wsgi
from standfast.hosts import host as host_module
from standfast.hosts.binding import start_if_serving
from standfast.hosts.detection import Decision, Scene, Verdict
from standfast.hosts.host import Host, HostState


@pytest.fixture
def told(monkeypatch):
    """Note what becomes of hosts in place of starting real ones, as if this were no test."""
    monkeypatch.setenv("STANDFAST_HOST", "on")
    said = []
    monkeypatch.setattr(Host, "start", lambda _self: said.append("start"))
    monkeypatch.setattr(Host, "stop", lambda _self, _grace=None: said.append("stop"))
    return said


@pytest.fixture
def app():
    with Standfast("memory://") as app:
        yield app


class Server:
    """A server of ASGI, as far as its lifespan goes."""

    def __init__(self, web):
        self._to_app, self._from_app = asyncio.Queue(), asyncio.Queue()
        scope = {"type": "lifespan", "asgi": {"version": "3.0"}}
        self.life = asyncio.ensure_future(web(scope, self._to_app.get, self._from_app.put))

    async def say(self, what):
        """Say that it starts or stops; return the answer."""
        await self._to_app.put({"type": f"lifespan.{what}"})
        async with asyncio.timeout(10):
            return await self._from_app.get()


async def test_a_lifespan_goes_around_that_of_the_user(app, told):
    """What the user sets up is there while the worker lives, and its state is passed on."""

    @asynccontextmanager
    async def own(web):
        told.append(f"open {web}")
        yield {"pool": 1}
        told.append("close")

    async with asgi.lifespan(app, own)("web") as state:
        assert state == {"pool": 1}
        assert told == ["open web", "start"]
    assert told == ["open web", "start", "stop", "close"]


async def test_a_lifespan_stops_the_worker_when_serving_fails(app, told):
    with pytest.raises(LookupError):
        async with asgi.lifespan(app)("web"):
            raise LookupError
    assert told == ["start", "stop"]


async def test_an_app_with_a_lifespan_of_its_own_is_asked_first(app, told):
    """And hears of the shutdown when the worker has stopped."""

    async def web(scope, receive, send):
        assert scope["type"] == "lifespan"
        for _ in range(2):
            message = await receive()
            told.append(message["type"])
            await send({"type": f"{message['type']}.complete"})

    server = Server(asgi.bind(web, app))
    assert await server.say("startup") == {"type": "lifespan.startup.complete"}
    assert told == ["lifespan.startup", "start"]
    assert await server.say("shutdown") == {"type": "lifespan.shutdown.complete"}
    assert told == ["lifespan.startup", "start", "stop", "lifespan.shutdown"]
    await server.life


async def test_an_app_without_a_lifespan_has_one_by_the_binding(app, told):
    """Many raise an error for what they do not know; the server hears that all is well."""

    async def web(scope, *_):
        if scope["type"] != "http":
            raise NotImplementedError
        told.append("served")

    bound = asgi.bind(web, app)
    server = Server(bound)
    assert await server.say("startup") == {"type": "lifespan.startup.complete"}
    await bound({"type": "http"}, None, None)
    assert await server.say("shutdown") == {"type": "lifespan.shutdown.complete"}
    assert told == ["start", "served", "stop"]
    await server.life


async def test_a_start_that_failed_is_the_servers_to_hear(app, told, monkeypatch):
    """That of the app itself, and that of a required worker; in neither case is anything started, or left so."""

    async def web(_scope, receive, send):
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no database"})

    server = Server(asgi.bind(web, app))
    assert (await server.say("startup"))["message"] == "no database"
    await server.life
    assert told == []

    async def silent(*_):
        raise NotImplementedError

    def refuse(_self):
        raise ConfigurationError("no such store")

    monkeypatch.setattr(Host, "start", refuse)
    server = Server(asgi.bind(silent, app, required=True))
    assert await server.say("startup") == {"type": "lifespan.startup.failed", "message": "no such store"}
    await server.life


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize("way", ["lifespan", "bind"])
async def test_the_store_is_ready_for_the_first_request(quick_path, way):
    """It may enqueue in a transaction of its own, in which no tables can be made."""
    path = quick_path / "shop.db"
    app = Standfast(f"sqlite:///{path}")

    @app.task
    def greet(name: str) -> None: ...

    def request():
        with closing(sqlite3.connect(path, isolation_level=None)) as shop:
            shop.execute("BEGIN IMMEDIATE")
            handle = greet.options(tx=shop).enqueue("Ada")
            shop.execute("COMMIT")
        return handle.status()

    async def web(scope, receive, send): ...

    if way == "lifespan":
        async with asgi.lifespan(app)("web"):
            assert request() == "ready"
    else:
        server = Server(asgi.bind(web, app))
        assert await server.say("startup") == {"type": "lifespan.startup.complete"}
        assert request() == "ready"
        await server.say("shutdown")
        await server.life
    await app.aclose()


async def test_a_store_that_is_away_does_not_keep_the_web_app_from_coming_up(told, caplog):
    app = Standfast("postgresql://127.0.0.1:1/none", store_timeout=1)
    async with asgi.lifespan(app)("web"):
        assert told == ["start"]
    assert ["not ready yet" in record.getMessage() for record in caplog.records] == [True]
    await app.aclose()


async def test_in_a_test_nothing_starts(app, told, monkeypatch):
    monkeypatch.delenv("STANDFAST_HOST")
    async with asgi.lifespan(app)("web"):
        assert told == []


def test_wsgi_starts_where_requests_are_served(app, told):
    """After the module that binds is imported: in a thread."""

    def web(*_):
        return []

    assert wsgi.bind(web, app) is web
    for thread in starting():
        thread.join(10)
    assert told == ["start"]


def spawn_worker(worker, forked):  # noqa: ARG001 - it is looked for
    """Fork as gunicorn does, in a function of this name; the worker then lives there."""
    forked()


in_gunicorn = FunctionType(spawn_worker.__code__, {"__name__": "gunicorn.arbiter"})


def starting():
    """Return the threads that wait to start a host."""
    return [thread for thread in threading.enumerate() if thread.name == "standfast-host-start"]


def test_a_master_that_forks_has_its_workers_start(app, told, monkeypatch):
    """With gunicorn's --preload: not in the master, only in what it forks as a worker, and once that is up."""
    monkeypatch.setattr(binding, "_after_fork", {})
    start_if_serving(Host(app), Decision(Verdict.AFTER_FORK, ""))
    worker = SimpleNamespace(booted=False)
    binding._forked_by_gunicorn()
    in_gunicorn(worker, lambda: binding._forked_by_gunicorn())  # noqa: PLW0108 - a frame between
    assert starting() == [], "a worker that forks lives in that function, too, but another one forks"

    in_gunicorn(worker, binding._forked_by_gunicorn)
    [waiting] = starting()
    waiting.join(0.1)
    assert told == []
    worker.booted = True
    waiting.join(10)
    assert told == ["start"]


def test_a_fork_of_gunicorn_that_nobody_knows_is_told(app, told, monkeypatch, caplog):
    """Its inner functions may have other names in another release: then no silence follows."""
    monkeypatch.setattr(binding, "_after_fork", {})
    monkeypatch.setattr(binding, "SAID_AFTER", 0.0)
    start_if_serving(Host(app), Decision(Verdict.AFTER_FORK, ""))
    FunctionType(fork_anew.__code__, {"__name__": "gunicorn.boss", "binding": binding})()
    looked()
    assert told == []
    assert "gunicorn forked it by fork_anew, which is not known; if it does, set STANDFAST_HOST=on" in caplog.text


def fork_anew():
    """Fork as a gunicorn of tomorrow may do."""
    binding._forked_by_gunicorn()


def looked():
    """Wait for those who look later."""
    for thread in threading.enumerate():
        if thread.name == "standfast-host-look":
            thread.join(10)


DAPHNE = Scene(frames=[("daphne.cli", "run")])


class TestAServerWithoutLifespan:
    """Daphne sends none: the worker starts all the same, or the log says why it does not."""

    @pytest.fixture(autouse=True)
    def daphne(self, monkeypatch):
        monkeypatch.setattr(binding, "scene_here", lambda _: DAPHNE)
        monkeypatch.setattr(binding, "SAID_AFTER", 0.0)

    @pytest.mark.parametrize("bound", [asgi.lifespan, partial(asgi.bind, object)])
    def test_the_worker_starts_by_itself(self, app, told, caplog, bound):
        bound(app)
        looked()
        for thread in starting():
            thread.join(10)
        assert told == ["start"]
        assert "this server has not sent a lifespan (daphne never does)" in caplog.text

    def test_beside_a_lifespan_of_the_user_it_does_not(self, app, told, caplog):
        """Its handlers may need what that sets up."""
        asgi.lifespan(app, asynccontextmanager(lambda _: None))
        looked()
        assert told == []
        [said] = [record for record in caplog.records if record.levelname == "ERROR"]
        assert "no job runs in this process: its server sends no lifespan" in said.message

    def test_a_process_that_cannot_be_told_is_told_of(self, app, told, caplog, monkeypatch):
        monkeypatch.setattr(binding, "scene_here", lambda _: Scene(frames=[("uvicorn.new", "run")]))
        asgi.lifespan(app)
        wsgi.bind(object, app)
        looked()
        assert told == []
        assert (
            caplog.text.count("whether this process of uvicorn serves requests; if it does, set STANDFAST_HOST=on")
            == 2
        )

    def test_another_host_of_the_app_counts(self, app, told, caplog, monkeypatch):
        """A module may make two web apps for one app, and its server serves one of them."""
        monkeypatch.setattr(host_module, "_RUNNING", {id(app): Host(app)})
        asgi.lifespan(app)
        looked()
        assert told == []
        assert caplog.text == ""

    async def test_a_lifespan_that_comes_counts(self, app, told, caplog, monkeypatch):
        monkeypatch.setattr(binding, "SAID_AFTER", 0.2)
        async with asgi.lifespan(app)("web"):
            looked()
        assert told == ["start", "stop"]
        assert caplog.text == ""


async def test_without_a_lifespan_the_first_request_starts_the_worker(app, told, caplog):
    """In any server: the request does not wait for it, and is served whatever comes of it."""
    served = []

    async def web(scope, *_):
        served.append(scope["type"])

    bound = asgi.bind(web, app)
    for _ in range(2):
        await bound({"type": "http"}, None, None)
    await bound._starting
    assert served == ["http", "http"]
    assert told == ["start"]
    assert caplog.text.count("this server has not sent a lifespan") == 1


def test_flask_may_run_itself(app, told, monkeypatch):
    """`app.run()` starts the worker and stops it, in the process that serves and not in its reloader."""
    monkeypatch.setenv("STANDFAST_HOST", "auto")

    class FlaskLike:
        debug = False
        wsgi_app = None

        def run(self, *_args, **_options):
            told.append("run")

    web = wsgi.bind(FlaskLike(), app)
    web.run(port=1)
    assert told == ["start", "run", "stop"]
    told.clear()
    web.run(debug=True)
    assert told == ["run"], "this is the reloader's parent"
    told.clear()
    monkeypatch.setenv("WERKZEUG_RUN_MAIN", "true")
    web.run(debug=True)
    assert told == ["start", "run", "stop"]
    told.clear()
    monkeypatch.setenv("FLASK_RUN_FROM_CLI", "true")
    web.run()
    assert told == ["run"]


@pytest.mark.usefixtures("told")
def test_an_app_is_bound_once(app):
    """A second worker in the same process is a mistake, and the error says what to do."""
    serves = Decision(Verdict.SERVES, "")
    first = Host(app)
    start_if_serving(first, serves)
    with pytest.raises(ConfigurationError, match="bind it once"):
        start_if_serving(Host(app), serves)
    start_if_serving(first, serves)


@pytest.mark.parametrize("bind", [asgi.lifespan, partial(asgi.bind, object), partial(wsgi.bind, object)])
class TestWhatIsBound:
    """The same mistakes are told in the same words, whatever the web app is."""

    def test_an_option_that_does_not_exist_is_refused_by_name(self, app, bind):
        with pytest.raises(ConfigurationError, match="has no option 'concurency'; did you mean concurrency"):
            bind(app, concurency=3)

    def test_the_web_app_in_place_of_the_app_is_refused(self, bind):
        with pytest.raises(ConfigurationError, match=r"not for a SimpleNamespace: write lifespan\(app\)"):
            bind(SimpleNamespace())

    def test_a_host_has_its_options_already(self, app, bind):
        with pytest.raises(ConfigurationError, match="give grace to Host"):
            bind(Host(app), grace=3)


async def test_a_host_that_was_made_before_is_bound(app, told):
    """Others may then ask how it is doing: pages, or a check of health."""
    host = Host(app)
    assert asgi.bind(object, host).host is host
    async with asgi.lifespan(host)("web"):
        assert told == ["start"]
    wsgi.bind(object, host)
    with pytest.raises(ConfigurationError, match="bind it once"):
        wsgi.bind(object, Host(app))


def test_the_other_kind_of_web_app_is_refused(app):
    """A worker bound like this would never start, or never hear that the server stops."""

    class Starlette:
        async def __call__(self, scope, receive, send): ...

    class Web(Starlette): ...

    with pytest.raises(
        ConfigurationError, match=r"a Web is an ASGI app: take bind or lifespan from standfast\.hosts\.asgi"
    ):
        wsgi.bind(Web(), app)
    with pytest.raises(ConfigurationError, match=r"is a WSGI app: take bind from standfast\.hosts\.wsgi"):
        asgi.bind(SimpleNamespace(wsgi_app=print), app)


def test_nothing_works_where_it_is_not_to(app, monkeypatch):
    """The switch goes before a start by hand; so do processes of Standfast's own, which import the same module."""
    monkeypatch.setenv("STANDFAST_HOST", "off")
    host = Host(app)
    host.start()
    assert host.state is HostState.OFF
    host.stop()
