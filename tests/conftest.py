"""Fixtures for tests that need a real server: PostgreSQL, Redis, and what stands in front of them.

One server of each kind serves the whole session and starts when the first test asks for it. STANDFAST_TEST_POSTGRES
and STANDFAST_TEST_REDIS name others to use in their place: a database in which schemas may be made, and a Redis
database that is empty. What is not there makes tests fail, with a word on how to get it; none is skipped.
"""

import asyncio
import gc
import inspect
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis
from hypothesis import settings

from empty_stores import make_tables, with_query
from servers import PgBouncer, PostgresServer, RedisCluster, RedisServer, Schema, fresh_schema
from simulator.loop import VirtualLoop

sys.path.append(str(Path(__file__).parents[1] / "bench"))  # the game
pytest.register_assert_rewrite("conformance")
settings.register_profile("untimed", deadline=None)  # how long an example takes is the machine's affair
settings.load_profile("untimed")

FAST = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
"""The shared server forgets everything when its machine fails, which no test of ours can wait for. The servers that
tests kill are private, and keep what they promise."""

MEMORY = Path("/dev/shm")
ROOM = 1 << 30
"""Bytes that must be free there: the folders of tests are small, and containers may have next to nothing."""


@pytest.fixture(scope="session", autouse=True)
def heeded_interrupts() -> None:
    """Let SIGINT mean what it does in a terminal: who is started in the background inherits that it is ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let workers write down incidents in a folder of the tests' own, and not in the user's."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


def pytest_configure(config: pytest.Config) -> None:
    """Let pytest-randomly order tests, and no more: it seeds numpy too, three times a test, and we do it below."""
    config.option.randomly_reset_seed = False


def pytest_collection_finish() -> None:
    """Spare the garbage collector all that was imported: it stays until the end, and is most of what there is."""
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let the seed of the order decide also what a test draws at random (`--randomly-seed`)."""
    random.seed(f"{item.config.getoption('randomly_seed', None)} {item.nodeid}")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine on an event loop of its own, whose time may be virtual."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    virtual = pyfuncitem.get_closest_marker("virtual_time")
    with asyncio.Runner(loop_factory=VirtualLoop if virtual else None) as runner:
        runner.run(pyfuncitem.obj(**given))
    return True


# -- one for all -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def shared_postgres() -> Iterator[str]:
    """Give the URL of a PostgreSQL database that every test shares; each makes a schema of its own there."""
    named = os.environ.get("STANDFAST_TEST_POSTGRES")
    if named:
        yield named
        return
    with PostgresServer(**FAST) as server:
        yield server.url()


@pytest.fixture(scope="session")
def shared_redis() -> Iterator[str]:
    """Give the URL of a Redis database that every test shares; each finds it empty."""
    named = os.environ.get("STANDFAST_TEST_REDIS")
    if not named:
        with RedisServer() as server:
            yield server.url()
        return
    with redis.Redis.from_url(named) as own:
        assert own.dbsize() == 0, (
            "the database that STANDFAST_TEST_REDIS names is not empty, and tests would empty it"
        )
    yield named


@pytest.fixture(scope="session")
def shared_pgbouncer(shared_postgres: str) -> Iterator[PgBouncer]:
    """Give a PgBouncer in transaction mode in front of the shared PostgreSQL."""
    with PgBouncer(shared_postgres) as pooler:
        yield pooler


@pytest.fixture(scope="session")
def shared_redis_cluster() -> Iterator[RedisCluster]:
    """Give a cluster of three Redis masters."""
    with RedisCluster() as cluster:
        yield cluster


# -- a place of its own for each test ----------------------------------------------------------------------------


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    """Give an empty folder in memory, if the machine has one: what is kept there waits for no disk at each commit.

    It is for tests in which one at a time uses the store. Where several meet, or are killed, the wait for the disk
    is when things happen.
    """
    if not MEMORY.is_dir() or not os.access(MEMORY, os.W_OK) or shutil.disk_usage(MEMORY).free < ROOM:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="standfast-test-", dir=MEMORY, ignore_cleanup_errors=True) as name:
        yield Path(name)


@pytest.fixture
def postgres_schema(shared_postgres: str) -> Iterator[str]:
    """Give the name of a schema that does not exist yet and is dropped afterwards, with those of its namespaces."""
    with fresh_schema(shared_postgres) as name:
        yield name


@pytest.fixture
def postgres_url(shared_postgres: str, postgres_schema: str) -> str:
    """Give the URL of a store in a schema of the test's own, which the store makes."""
    return with_query(shared_postgres, schema=postgres_schema)


@pytest.fixture
def pgbouncer_url(shared_pgbouncer: PgBouncer, postgres_schema: str) -> str:
    """Give the same through PgBouncer in transaction mode."""
    return shared_pgbouncer.url(schema=postgres_schema, pooler="transaction")


@pytest.fixture
def redis_url(shared_redis: str) -> Iterator[str]:
    """Give the URL of an empty Redis database."""
    with redis.Redis.from_url(shared_redis) as own:
        own.flushdb()
        yield shared_redis
        own.flushdb()


@pytest.fixture
def redis_cluster_url(shared_redis_cluster: RedisCluster) -> Iterator[str]:
    """Give the URL of an empty cluster."""
    shared_redis_cluster.flush()
    yield shared_redis_cluster.url()
    shared_redis_cluster.flush()


@pytest.fixture
def emptied_url(shared_postgres: str, emptied_schema: Schema) -> str:
    """Give the URL of an empty store that was made before: for tests that change no table and ask for no plan."""
    emptied_schema.empty()
    return with_query(shared_postgres, schema=emptied_schema.name)


@pytest.fixture
def emptied_pgbouncer_url(shared_pgbouncer: PgBouncer, emptied_schema: Schema) -> str:
    """Give the same through PgBouncer in transaction mode."""
    emptied_schema.empty()
    return shared_pgbouncer.url(schema=emptied_schema.name, pooler="transaction")


@pytest.fixture(scope="session")
def emptied_schema(shared_postgres: str) -> Iterator[Schema]:
    """Give a schema with the store's tables for tests that follow each other quickly: `empty()` comes first."""
    name = f"test_{os.getpid()}_emptied"
    schema = Schema(shared_postgres, name, lambda: make_tables(with_query(shared_postgres, schema=name)))
    yield schema
    schema.drop()


# -- what the session has shown ------------------------------------------------------------------------------------


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say on which stores the conformance suite ran, and how that went."""
    told: dict[str, Counter[str]] = {}
    for outcome in ("passed", "failed", "error"):
        for report in terminalreporter.getreports(outcome):
            if isinstance(report, pytest.TestReport) and (report.when == "call" or outcome == "error"):
                for store in [value for name, value in report.user_properties if name == "conformance"]:
                    told.setdefault(str(store), Counter())[outcome] += 1
    if told:
        terminalreporter.write_line(f"conformance: {'; '.join(_stores_said(told))}")


def _stores_said(told: dict[str, Counter[str]]) -> Iterator[str]:
    for store, outcomes in sorted(told.items()):
        yield f"{store} {', '.join(f'{times} {outcome}' for outcome, times in outcomes.items())}"


# -- the world around ----------------------------------------------------------------------------------------------


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the zone of the machine, in which people are told times, be UTC."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


# -- servers to harm -----------------------------------------------------------------------------------------------


@pytest.fixture
def postgres_server() -> Iterator[Callable[..., PostgresServer]]:
    """Give a maker of private PostgreSQL servers, started, with settings of the server's own."""
    with ExitStack() as running:
        yield lambda **settings: running.enter_context(PostgresServer(**settings))


@pytest.fixture
def redis_server() -> Iterator[Callable[..., RedisServer]]:
    """Give a maker of private Redis servers, started, with settings of the server's own."""
    with ExitStack() as running:
        yield lambda **settings: running.enter_context(RedisServer(**settings))
