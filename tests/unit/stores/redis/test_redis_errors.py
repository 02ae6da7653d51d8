"""What goes wrong on a server becomes one line of ours, with where it happened and what to do, and no password."""

import asyncio
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NoReturn

import pytest
import redis
from msgspec.structs import replace
from redis_scene import Open, Servers, scripted

from servers import RedisServer
from standfast.errors import StoreError, StoreFullError, StoreUnavailableError
from standfast.model.job import NewJob
from standfast.settings import load_settings
from standfast.stores.redis.engine import refuse_old
from standfast.stores.redis.store import RedisBackend, key_prefix
from standfast.stores.redis.translate import translate
from standfast.stores.redis.url import Endpoint, parse_address
from standfast.stores.url import refuse_missing_store
from standfast.stores.values import WorkerInfo
from standfast.stores.verb import Access

LATER = StoreUnavailableError
CRASH_ONLY = 60.0


def refusal_of(backend: RedisBackend, kind: type[StoreError], *, exactly: bool = True) -> str:
    """Return what an enqueue is refused with, the same in a thread and in an event loop."""
    job = NewJob("job", "task", b"a payload")
    with pytest.raises(kind) as refused:
        backend.run(backend.verbs.enqueue([job]))
    with pytest.raises(kind) as again:
        asyncio.run(backend.arun(backend.verbs.enqueue([job])))
    assert str(again.value) == str(refused.value)
    assert not exactly or type(refused.value) is kind
    told = str(refused.value)
    assert "\n" not in told
    assert "payload" not in told
    return told


def with_login(server: RedisServer, login: str) -> str:
    return f"redis://{login}127.0.0.1:{server.port}/0"


def test_a_wrong_password(redis_server: Servers, open_store: Open) -> None:
    """It is said that it is wrong, and neither which it was nor the right one."""
    server = redis_server()
    told = refusal_of(open_store(with_login(server, ":hunter2@")), StoreError)
    assert told.startswith(f"Redis 127.0.0.1:{server.port}/0 refuses the user or the password in the URL: ")
    assert "hunter2" not in told
    assert server.password not in told


def test_a_missing_password(redis_server: Servers, open_store: Open) -> None:
    """A server that asks for one tells so, and we say where to write it."""
    told = refusal_of(open_store(with_login(redis_server(), "")), StoreError)
    assert "asks for a password: write it in the URL" in told


def test_a_password_for_a_server_without_one(redis_server: Servers, open_store: Open) -> None:
    """Who gives a password to a server that knows none may have the wrong server."""
    server = redis_server()
    with server.connect() as own:
        own.config_set("requirepass", "")
    told = refusal_of(open_store(server.url()), StoreError)
    assert "has no password, and the URL gives one" in told


def test_a_user_with_too_few_rights(redis_server: Servers, open_store: Open) -> None:
    """What to grant is said as a command, and with that it works, the bell and all."""
    server = redis_server()
    backend = open_store(with_login(server, "worker:secret@"))
    with server.connect() as own:
        own.execute_command("ACL", "SETUSER", "worker", "on", ">secret", "+ping")
        told = refusal_of(backend, StoreError)
        assert "does not let this user do what is needed" in told
        _, command, _ = told.split("`")
        own.execute_command(*command.replace("<user>", "worker").split())

    async def hear() -> list[bool]:
        listener = backend.bell.listen()
        try:
            heard = [await listener.wait(CRASH_ONLY), await listener.wait(0.1)]
            await backend.arun(backend.verbs.enqueue([NewJob("job", "task", b"")]))
            return [*heard, await listener.wait(CRASH_ONLY)]
        finally:
            listener.close()

    assert asyncio.run(hear()) == [True, False, True]


def test_keys_that_a_user_may_not_touch(redis_server: Servers, open_store: Open) -> None:
    """Rights for other keys are no rights for ours."""
    server = redis_server()
    with server.connect() as own:
        own.execute_command("ACL", "SETUSER", "worker", "on", ">secret", "+@all", "~cache:*")
    told = refusal_of(open_store(with_login(server, "worker:secret@")), StoreError)
    assert "~{standfast*" in told


def test_nobody_listens_there(open_store: Open) -> None:
    """The wrong port, or a server that is not started."""
    told = refusal_of(open_store("redis://:hunter2@127.0.0.1:1/3"), LATER)
    assert told == "Redis 127.0.0.1:1/3 refused the connection: start the server, or check host and port"


def test_a_host_that_does_not_exist(open_store: Open) -> None:
    """A name that nobody knows may be known later, when the network is there."""
    told = refusal_of(open_store("redis://:hunter2@nowhere.invalid/0"), LATER)
    assert "nowhere.invalid:6379/0 cannot be found" in told


def test_a_socket_that_is_not_there(open_store: Open, tmp_path) -> None:
    """The path is named."""
    told = refusal_of(open_store(f"unix://{tmp_path}/none.sock"), LATER)
    assert told == f"Redis {tmp_path}/none.sock/0 has no such socket: start the server, or check the path"


def test_a_certificate_that_is_not_there(redis_server: Servers, open_store: Open) -> None:
    """It is no socket, and no matter of trying again."""
    url = f"rediss://127.0.0.1:{redis_server().port}/0?ssl_ca_certs=/none/ca.pem"
    told = refusal_of(open_store(url), StoreError)
    assert told.endswith("/0: a file for TLS cannot be read: check the path in ssl_ca_certs")


@pytest.mark.parametrize("namespace", [None, "shop"])
def test_a_place_that_holds_nothing_is_no_store(redis_url: str, open_store: Open, namespace: str | None) -> None:
    """Who looks there has the wrong URL or namespace; with the first job, the first worker or a pause it is one."""
    settings = load_settings({}, url=redis_url, namespace=namespace)
    other = open_store(redis_url, namespace="other")
    other.run(other.verbs.enqueue([NewJob("job", "task", b"")]))
    words = "holds no jobs of Standfast .*; give the right store with --url and --namespace"
    backend = open_store(redis_url, namespace=namespace)
    for make in (
        lambda: backend.verbs.enqueue([NewJob("job", "task", b"")]),
        lambda: backend.verbs.register(WorkerInfo("w", "s", "host", 1, timedelta(seconds=15), None, 1)),
        lambda: backend.verbs.pause("mail"),
    ):
        with pytest.raises(StoreUnavailableError, match=words):
            refuse_missing_store(settings)
        backend.run(make())
        refuse_missing_store(settings)
        wipe(redis_url, f"{key_prefix(namespace)}:*")


def wipe(url: str, keys: str) -> None:
    with redis.Redis.from_url(url) as own:
        own.delete(*own.keys(keys))


def test_by_its_socket(redis_server: Servers, open_store: Open) -> None:
    """A server on the same machine is reached without a port."""
    server = redis_server(unixsocket="own.sock", unixsocketperm="777")
    backend = open_store(f"unix://:{server.password}@{server.folder}/own.sock?db=2")
    backend.run(scripted("ring", "work"))
    with server.connect(2) as own:
        assert own.get("{standfast}:arrivals") == b"1"


def test_a_full_server_that_evicts_nothing(redis_server: Servers, open_store: Open) -> None:
    """No job is accepted, none is lost, and reading goes on; with more memory all is well."""
    server = redis_server(maxmemory_policy="noeviction")
    backend = open_store(server.url())
    backend.run(backend.verbs.enqueue([NewJob("first", "task", b"")]))
    with server.connect() as own:
        own.config_set("maxmemory", 1)
        told = refusal_of(backend, StoreFullError)
        assert "has no memory left, nothing of this call was stored: raise its `maxmemory`" in told
        assert backend.run(backend.verbs.get("first")) is not None
        assert backend.run(backend.verbs.get("job")) is None
        own.config_set("maxmemory", "0")
    backend.run(backend.verbs.enqueue([NewJob("job", "task", b"")]))


def test_a_replica_takes_no_writes(redis_server: Servers, open_store: Open) -> None:
    """A master that was demoted says so; once it is the master again, the next call succeeds."""
    master, replica = redis_server(), redis_server()
    backend = open_store(replica.url())
    backend.run(scripted("ring", "work"))
    with replica.connect() as own:
        own.config_set("masterauth", master.password)
        own.replicaof("127.0.0.1", master.port)
        told = refusal_of(backend, LATER)
        assert "is a replica, which takes no writes: name the master in the URL, or wait for the failover" in told
        own.replicaof("NO", "ONE")
    backend.run(scripted("ring", "work"))


def test_a_replica_without_its_master(redis_server: Servers, open_store: Open) -> None:
    """Set so, it answers nothing at all."""
    replica = redis_server(replica_serve_stale_data="no")
    with replica.connect() as own:
        own.replicaof("127.0.0.1", 1)
    told = refusal_of(open_store(replica.url()), LATER)
    assert "is a replica that has lost its master" in told


def test_a_server_busy_with_the_script_of_another(redis_server: Servers, open_store: Open) -> None:
    """While it runs nothing can be said, and it is said how to end it."""
    server = redis_server(lua_time_limit=10)
    backend = open_store(server.url())
    backend.run(scripted("ring", "work"))

    def hog() -> None:
        with server.connect() as own, pytest.raises(redis.ResponseError, match="killed"):
            own.eval("while true do end", 0)

    thread = threading.Thread(target=hog)
    thread.start()
    with server.connect() as own:
        _until(lambda: _is_busy(own))
        told = refusal_of(backend, LATER)
        own.script_kill()
    thread.join(CRASH_ONLY)
    assert "is busy with a slow script of somebody else" in told
    backend.run(scripted("ring", "work"))


def test_a_server_that_cannot_write_to_its_disk(redis_server: Servers, open_store: Open) -> None:
    """It stops accepting, and its log is where to look."""
    server = redis_server()
    backend = open_store(server.url())
    backend.run(scripted("ring", "work"))
    with server.connect() as own:
        own.config_set("save", "3600 1")
        (server.folder / "dump.rdb").mkdir()  # in the way of the snapshot
        own.bgsave()
        _until(lambda: own.info("persistence")["rdb_last_bgsave_status"] != "ok")
    told = refusal_of(backend, LATER)
    assert "cannot write its data to disk: mend that as its log says" in told


def test_too_many_clients(redis_server: Servers, open_store: Open) -> None:
    """The server's limit is named."""
    server = redis_server(maxclients=1)
    with server.connect() as own:
        own.ping()
        told = refusal_of(open_store(server.url()), LATER)
    assert "has too many clients: raise its `maxclients`" in told


def test_a_database_that_there_is_not(redis_server: Servers, open_store: Open) -> None:
    """A server has sixteen by default."""
    told = refusal_of(open_store(redis_server().url(99)), StoreError)
    assert "/99 has no database of this number" in told


def test_keys_of_somebody_else(backend: RedisBackend, redis_url: str) -> None:
    """What is in the way of ours is not touched."""
    with redis.Redis.from_url(redis_url) as own:
        own.lpush("{standfast}:arrivals", "x")
        with pytest.raises(StoreError, match="has keys of somebody else by our names"):
            backend.run(scripted("ring", "work"))
        assert own.lrange("{standfast}:arrivals", 0, -1) == [b"x"]


def test_a_command_that_was_taken_away(open_store: Open) -> None:
    """Neither payload nor arguments are repeated, also not by the error behind ours."""
    said = b"-ERR unknown command `EVALSHA`, with args beginning with: `f_1`, `1`, `{standfast}`, `a payload`, \r\n"
    with answering(said) as port, pytest.raises(StoreError) as refused:
        open_store(f"redis://127.0.0.1:{port}/0").run(scripted("ring", "a payload"))
    assert "lacks a command that is needed" in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__


@contextmanager
def answering(reply: bytes) -> Iterator[int]:
    """Give a port at which everybody is answered with this, and hung up on."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    visitor, _ = server.accept()
                except OSError:
                    return
                with visitor:
                    visitor.recv(1024)
                    visitor.sendall(reply)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(CRASH_ONLY)


@pytest.mark.parametrize(
    ("reply", "kind", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", StoreError, "does not answer like a Redis"),
        (b"", LATER, "closed the connection"),
        (b"-DENIED Redis is running in protected mode because ...\r\n", StoreError, "runs in protected mode"),
        (
            b"$28\r\nredis_version:6.0.16\r\nother:x\r\n",
            StoreError,
            "has version 6.0.16: upgrade it to 6.2 or newer",
        ),
        (b"-MISCONF Errors writing to the AOF file: No space left on device\r\n", StoreFullError, "no disk space"),
        (b"-LOADING Redis is loading the dataset in memory\r\n", LATER, "loads its data from disk after a start"),
        (b"-NOREPLICAS Not enough good replicas to write.\r\n", LATER, "has too few replicas to take a write"),
        (b"-TRYAGAIN Multiple keys request during rehashing of slot\r\n", LATER, "moves the slot"),
        (b"-ERR something new\r\n", StoreError, "refused a command (something new)"),
    ],
)
def test_words_of_a_server(reply: bytes, kind: type[StoreError], words: str, open_store: Open) -> None:
    """What else a server, or something that is none, may say."""
    with answering(reply) as port:
        backend = open_store(f"redis://127.0.0.1:{port}/0", timeout=5)
        assert words in refusal_of(backend, kind)


class Talk(socketserver.BaseRequestHandler):
    """Answers each command as its server says: b"" is to hang up, None to say nothing."""

    def handle(self) -> None:
        while heard := self.request.recv(65_536):
            answer = self.server.answers[heard.split(b"\r\n")[2]].pop(0)
            if answer == b"":
                return
            self.request.sendall(answer or b"")


@contextmanager
def talking(*evalsha: bytes | None, script: bytes = b"") -> Iterator[str]:
    """Give the URL of a server that answers a script so, and then so; and each SCRIPT LOAD the same."""
    info = b"redis_version:7.2.0\r\n"
    answers = {
        b"INFO": [b"$%d\r\n%s\r\n" % (len(info), info)] * 9,
        b"GET": [b"$-1\r\n"] * 9,
        b"EVALSHA": list(evalsha),
        b"SCRIPT": [script] * 9,
    }
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Talk) as server:
        server.block_on_close, server.daemon_threads, server.answers = False, True, answers
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"redis://127.0.0.1:{server.server_address[1]}/0"
        finally:
            server.shutdown()
            thread.join(CRASH_ONLY)


IN_DOUBT = "whether this call was stored is not known"


@pytest.mark.parametrize(("access", "is_in_doubt"), [(Access.WRITE, True), (Access.READ, False)])
def test_a_first_call_of_a_loop_that_nobody_answers(open_store: Open, access: Access, is_in_doubt: bool) -> None:
    """What was left of its time after the connection was open was too short, and it may have happened."""
    with talking(None, None) as url:
        backend = open_store(url, timeout=0.3)
        with pytest.raises(StoreUnavailableError, match=r"did not answer within 0\.3 s") as refused:
            asyncio.run(backend.arun(scripted("ring", "work", access=access)))
        assert (IN_DOUBT in str(refused.value)) is is_in_doubt


NO_SCRIPT = b"-NOSCRIPT No matching script.\r\n"


@pytest.mark.parametrize("run", [RedisBackend.run, lambda *asked: asyncio.run(RedisBackend.arun(*asked))])
def test_hung_up_on_before_a_script_was_known(open_store: Open, run: Callable[..., object]) -> None:
    """Nothing has happened: also what may happen only once is asked again, and if it fails it is not in doubt."""
    with talking(NO_SCRIPT, b":7\r\n") as url:
        assert run(open_store(url), replace(scripted("ring", "work"), once=True)) == 7
    with talking(NO_SCRIPT, NO_SCRIPT) as url:
        with pytest.raises(StoreUnavailableError, match="closed the connection") as refused:
            run(open_store(url), replace(scripted("ring", "work"), once=True))
        assert IN_DOUBT not in str(refused.value)


@pytest.mark.parametrize("run", [RedisBackend.run, lambda *asked: asyncio.run(RedisBackend.arun(*asked))])
def test_a_repetition_that_finds_no_server(open_store: Open, run: Callable[..., object]) -> None:
    """The first try may be stored: the error says so too if the second one ends before the server is asked."""
    with talking(b"") as url:
        backend = open_store(url)
        engine = backend._engine()
        lose = engine._locator.lose

        def lose_for_good(place: Endpoint) -> None:
            lose(place)
            engine._locator.found = None
            engine._locator.find = _find_nothing

        engine._locator.lose = lose_for_good
        with pytest.raises(StoreUnavailableError, match="no sentinel knows") as refused:
            run(backend, scripted("ring", "work"))
        assert IN_DOUBT in str(refused.value)


def _find_nothing() -> NoReturn:
    raise StoreUnavailableError("no sentinel knows the server")


def test_tls_to_a_server_without(redis_server: Servers, open_store: Open) -> None:
    """The scheme is what to change."""
    url = redis_server().url().replace("redis://", "rediss://")
    told = refusal_of(open_store(url, timeout=0.5), LATER, exactly=False)
    assert "rediss:// is written for TLS and redis:// without" in told


def test_old_versions() -> None:
    """Numbers are compared as numbers, and what cannot be read is let pass."""
    address = parse_address("redis://host")
    for version in ("6.2.0", "7.0.15", "10.0.1", "255.255.255", "unstable", ""):
        refuse_old({"redis_version": version}, address)
    with pytest.raises(StoreError, match=r"host:6379/0 has version 6\.0\.20"):
        refuse_old({"redis_version": "6.0.20"}, address)


def test_an_error_of_a_script_on_an_older_server() -> None:
    """Redis 6.2 wraps what a command in a script ran into; it is found in there."""
    wrapped = "Error running script (call to f_1): @user_script:7: @user_script: 7: -OOM command not allowed"
    told = translate(redis.ResponseError(wrapped), parse_address("redis://host"), 1)
    assert type(told) is StoreFullError


def _until(holds: Callable[[], Any]) -> None:
    waiting = threading.Event()
    for _ in range(round(CRASH_ONLY / 0.01)):
        if holds():
            return
        waiting.wait(0.01)
    raise AssertionError("it does not happen")


def _is_busy(own: "redis.Redis[Any]") -> bool:
    try:
        own.ping()
    except redis.ResponseError as error:
        return str(error).startswith("BUSY")
    return False
