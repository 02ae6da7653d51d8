"""Work goes over TLS, to servers whose certificates an authority of the test's own has signed.

PostgreSQL speaks TLS by itself. The Redis that tests have is built without it: a front of the test's own ends the
TLS of our clients before it.
"""

import shutil
import socket
import threading
from contextlib import ExitStack, contextmanager

import psycopg
import pytest
from fleet import wait_until
from shopfloor import assert_one_line, run

from servers import Authority, PostgresServer, RedisServer, TlsFront
from servers.process import give_away
from standfast import Standfast, StoreError, StoreUnavailableError
from standfast.model.states import State

pytestmark = pytest.mark.timeout(120)

STORE = 3
"""The exit code of who cannot use the store."""

LARGE = "x" * 300_000
"""More than fits into one record of TLS."""


class TlsPostgres:
    """PostgreSQL with a certificate. Its clients may need one too, of the authority `clients`."""

    def __init__(self, certificate, clients=None):
        self.server = PostgresServer(ssl="on", ssl_cert_file="own.crt", ssl_key_file="own.key")
        data = self.server.folder / "data"
        shutil.copy(certificate.cert, data / "own.crt")
        shutil.copy(certificate.key, data / "own.key")
        if clients is not None:
            shutil.copy(clients.cert, data / "clients.crt")
            self.server.settings["ssl_ca_file"] = "clients.crt"
        give_away(data)
        self._demanding = clients is not None

    def __enter__(self):
        self.server.start()
        if self._demanding:
            hba = self.server.folder / "data" / "pg_hba.conf"
            hba.write_text("hostssl all all all scram-sha-256 clientcert=verify-ca\n")
            with self.server.connect() as own:
                own.execute("SELECT pg_reload_conf()")
            wait_until(self._refuses_the_test, what="the demand of a certificate")
        return self

    def __exit__(self, *_):
        self.server.close()

    def _refuses_the_test(self):
        try:
            self.server.connect().close()
        except psycopg.OperationalError:
            return True
        return False

    def url(self, authority=None, own=None):
        files = {} if authority is None else {"sslrootcert": authority.cert}
        files |= {} if own is None else {"sslcert": own.cert, "sslkey": own.key}
        return self.server.url(sslmode="verify-full", **{name: str(path) for name, path in files.items()})

    def assert_all_secure(self):
        """Every connection but the one that asks has TLS, as the server sees it."""
        with self.server.connect() as own:
            seen = own.execute("SELECT ssl FROM pg_stat_ssl WHERE pid <> pg_backend_pid()").fetchall()
        assert len(seen) >= 3
        assert {secure for (secure,) in seen} == {True}


class TlsRedis:
    """Redis behind a front with a certificate, which alone is known to clients."""

    def __init__(self, certificate, clients=None):
        self.server = RedisServer(appendonly="yes", appendfsync="always")
        self._front = TlsFront(self.server.port, certificate, clients)

    def __enter__(self):
        self.server.start()
        self._front.__enter__()
        return self

    def __exit__(self, *_):
        self._front.__exit__()
        self.server.close()

    def url(self, authority=None, own=None):
        files = {} if authority is None else {"ssl_ca_certs": authority.cert}
        files |= {} if own is None else {"ssl_certfile": own.cert, "ssl_keyfile": own.key}
        options = "&".join(f"{name}={path}" for name, path in files.items())
        return f"rediss://:{self.server.password}@127.0.0.1:{self._front.port}/0?{options}"

    def assert_all_secure(self):
        """They came through the front: nobody was told of another way."""
        with self.server.connect() as own:
            assert len(own.client_list()) >= 3 + 1


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"), "trusted")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("stranger"), "stranger")


@pytest.fixture(params=[TlsPostgres, TlsRedis], ids=["postgres", "redis"])
def secured(request):
    """Give a maker of servers, started."""
    with ExitStack() as opened:
        yield lambda *words: opened.enter_context(request.param(*words))


def test_workers_and_clients_over_tls(fleet_on, secured, authority):
    """Jobs come and go, and both sides are woken: no poll helps. Large ones take several records."""
    place = secured(authority.sign("server"))
    fleet = fleet_on(place.url(authority))
    [tree] = fleet.start_workers(1, safety_poll=600)
    for _ in range(20):
        fleet.app.handle(fleet.enqueue("nap", seconds=0)).result(timeout=60)
    place.assert_all_secure()
    with Standfast(place.url(authority)) as app:

        @app.task
        def keep(text: str) -> None: ...

        handle = keep.options(delay=600).enqueue(LARGE)
        assert keep.arguments.decode(handle.job().payload) == {"text": LARGE}
    assert "store away" not in tree.told


def test_an_outage_over_tls(fleet_on, secured, authority):
    """A server that dies is away, as without TLS: workers wait for it, clients may try again."""
    place = secured(authority.sign("server"))
    fleet = fleet_on(place.url(authority))
    [tree] = fleet.start_workers(1, store_timeout=2)
    crossing = fleet.enqueue("nap", seconds=2)
    fleet.wait_for_start(crossing)
    place.server.kill()
    wait_until(lambda: "store away" in tree.told, what="a word about the store")
    with pytest.raises(StoreUnavailableError):
        fleet.enqueue("nap", seconds=0)
    place.server.start()
    after = fleet.enqueue("nap", options={"retry_for": 60}, seconds=0)
    for job in (crossing, after):
        done = fleet.wait_for(job, State.COMPLETED)
        assert (done.attempt, done.crashes) == (0, 0)


def test_a_certificate_of_our_own(fleet_on, secured, authority):
    """A server that asks its clients for one gets it."""
    place = secured(authority.sign("server"), authority)
    fleet = fleet_on(place.url(authority, authority.sign("client")))
    fleet.start_workers(1)
    fleet.wait_for(fleet.enqueue("nap", seconds=0), State.COMPLETED)


def test_a_server_of_another_authority(fleet_on, secured, authority, stranger):
    """It may be anybody: the file that says whom to trust is what to correct."""
    url = secured(stranger.sign("server")).url(authority)
    assert_refused(fleet_on, url, "authority that is not trusted here: name the file with the authority's own")


def test_a_certificate_for_another_host(fleet_on, secured, authority):
    """The host in the URL is what to correct."""
    url = secured(authority.sign("server", "DNS:elsewhere")).url(authority)
    assert_refused(fleet_on, url, "for another host: write the host that it names in the URL")


def assert_refused(fleet_on, url, words):
    """Clients, commands and workers end with the same line, which has the remedy."""
    with Standfast(url) as app, pytest.raises(StoreError, match=words) as raised:
        app.prepare()
    assert not isinstance(raised.value, StoreUnavailableError)
    told = str(raised.value)
    assert "\n" not in told
    done = run("jobs", "list", "--url", url)
    assert_one_line(done.stderr, told)
    assert done.returncode == STORE
    tree = fleet_on(url).start()
    assert tree.exit_code() == STORE
    assert told in tree.told
    assert len(tree.told.splitlines()) == 1


def test_a_server_that_misses_our_certificate(secured, authority, stranger):
    """It asks for one of an authority that it trusts."""
    place = secured(authority.sign("server"), authority)
    for own in (None, stranger.sign("client")):
        with Standfast(place.url(authority, own)) as app, pytest.raises(StoreError) as raised:
            app.prepare()
        told = str(raised.value)
        assert "\n" not in told
        assert "certificate" in told


@contextmanager
def hanging_up(greeting):
    """Give a port at which everybody is greeted, and hung up on in the middle of the handshake."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            while True:
                try:
                    visitor, _ = server.accept()
                except OSError:
                    return
                with visitor:
                    visitor.recv(8)
                    visitor.sendall(greeting)
                    visitor.recv(10_000)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(60)


@pytest.mark.parametrize(
    ("url", "greeting"),
    [("postgresql://me:secret@127.0.0.1:{}/jobs?sslmode=require", b"S"), ("rediss://127.0.0.1:{}/0", b"")],
    ids=["postgres", "redis"],
)
def test_a_server_that_dies_during_the_handshake_is_away(url, greeting):
    """It is no disagreement: a worker waits for it, and does not end."""
    with hanging_up(greeting) as port, Standfast(url.format(port)) as app, pytest.raises(StoreUnavailableError):
        app.prepare()
