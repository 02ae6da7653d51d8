"""An app declares tasks and opens its store when it is first needed, and never tells a password."""

import asyncio
import importlib
import os
import subprocess
import sys
import textwrap
import threading
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest

import standfast
from standfast import ConfigurationError, Standfast
from standfast.errors import StoreFullError
from standfast.model.states import State
from standfast.settings import load_settings
from standfast.stores.contract import count_states
from standfast.stores.memory.store import MemoryBackend
from standfast.stores.sqlite import sqlite_path
from standfast.stores.url import OPEN_LOCK, check_url, open_backend
from standfast.stores.url import open_backend as real_open_backend
from standfast.task import JOBS_PER_CALL
from standfast.testing.clock import FakeClock


@pytest.fixture(autouse=True)
def _no_url_from_outside(monkeypatch):
    monkeypatch.delenv("STANDFAST_URL", raising=False)


@pytest.fixture
def app():
    with Standfast("memory://") as app:
        yield app


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Give a way to import a module, for the first time or again."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setitem(sys.modules, "test_app_shared", ModuleType("test_app_shared"))
    before = {*sys.modules}

    def bring(name, source, again=None):
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(source).lstrip())
        importlib.invalidate_caches()
        if again == "reloaded":
            return importlib.reload(sys.modules[name])
        sys.modules.pop(name, None)
        return importlib.import_module(name)

    yield bring
    for name in {*sys.modules} - before:
        if name.startswith("shop_"):
            del sys.modules[name]


def test_tasks_are_declared_bare_or_with_arguments_under_their_names(app):
    @app.task
    def plain() -> None: ...

    @app.task(queue="mail")
    async def mail() -> None: ...

    @app.task(name="reports:daily")
    def report() -> None: ...

    assert dict(app.tasks) == {"plain": plain, "mail": mail, "reports:daily": report}
    assert (plain.is_async, mail.is_async) == (False, True)


def test_the_tasks_cannot_be_changed_from_outside(app):
    with pytest.raises(TypeError):
        app.tasks["x"] = None


def test_two_tasks_of_one_name_are_told_apart_by_where_they_are(app, module):
    """Which of them has the name must not depend on which is imported first: stored jobs go by it."""
    source = """
    from test_app_shared import app

    @app.task
    def send(to: str) -> None: ...
    """
    sys.modules["test_app_shared"].app = app
    first = module("shop_mails", source)
    with pytest.raises(ConfigurationError) as refused:
        module("shop_texts", source)
    for words in (
        "two tasks are named 'send'",
        "shop_mails.send (shop_mails.py, line 3)",
        "shop_texts.send (shop_texts.py, line 3)",
        "name='shop_texts.send'",
    ):
        assert words in str(refused.value)
    assert app.tasks["send"] is first.send
    spec = importlib.util.spec_from_file_location("other_name", first.__file__)
    with pytest.raises(ConfigurationError, match="are one file that is imported under two names"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


@pytest.mark.parametrize("how", ["reloaded", "imported anew"])
def test_a_module_that_runs_again_replaces_its_tasks(app, module, how):
    """As it is now: with its schedule, windows and limits, in a worker that runs too."""
    sys.modules["test_app_shared"].app = app
    sys.modules["test_app_shared"].declare = lambda: app.task(name="by-a-helper")(lambda: None)
    source = """
    from test_app_shared import app, declare
    from standfast import Every, Window

    declare()

    app.task(lambda: None, name="other", schedule=Every(5))

    @app.task(schedule=Every({}), window=Window("03:00", "04:00"), concurrency={})
    def tick() -> int:
        return {}

    app.schedule("by-hand", tick, Every({}))
    """
    shop = module("shop_reloaded", source.replace("{}", "3"))
    before = shop.tick
    shop = module("shop_reloaded", source.replace("{}", "4444"), again=how)
    assert app.tasks["tick"] is shop.tick is not before
    assert shop.tick.fn() == 4444
    assert {(each.name, each.rule.interval) for each in app.declarations} == {
        ("other", 5),
        ("tick", 4444),
        ("by-hand", 4444),
    }
    assert app.limits.tasks["tick"].most == 4444
    shop = module("shop_reloaded", "from test_app_shared import app\napp.task(name='tick')(lambda: 1)", again=how)
    assert {each.name for each in app.declarations} == {"other", "by-hand"}
    assert (app.limits.tasks, app.windows) == ({}, ())
    with pytest.raises(ConfigurationError, match="two tasks are named 'tick'"):
        module("shop_twice", "from test_app_shared import app\n" + 2 * "app.task(name='tick')(lambda: 1)\n")


def test_a_cell_of_a_notebook_may_run_again(app):
    """Code without a file, in the module that is run: what is declared last counts."""
    cell = "@app.task\ndef send(to: str) -> int:\n    return {}\n"
    space = {"__name__": "__main__", "app": app}
    for value in (1, 2):
        exec(compile(cell.format(value), f"<ipython-input-{value}>", "exec"), space)
        assert app.tasks["send"].fn("a") == value
    exec(compile(cell.format(3), "/tmp/ipykernel_7/123.py", "exec"), space)
    assert app.tasks["send"].fn("a") == 3


@pytest.mark.parametrize(
    "enqueue", ["send.enqueue('a')", "asyncio.run(send.aenqueue('a'))", "send.enqueue_many([])"]
)
def test_an_enqueue_while_a_module_is_imported_is_warned_of(module, enqueue):
    """Each worker imports it too, so each start would enqueue another job."""
    source = f"""
    import asyncio
    from standfast import Standfast

    app = Standfast("memory://")

    @app.task
    def send(to: str) -> None: ...

    def main():
        {enqueue}

    if CALL:
        main()
    """
    quiet = module("shop_quiet", source.replace("CALL", "False"))
    quiet.main()
    if enqueue.endswith("[])"):
        module("shop_loud", source.replace("CALL", "True"))  # nothing is enqueued
        return
    with pytest.warns(RuntimeWarning, match=r"shop_loud enqueues a job while it is imported.*__main__") as warned:
        module("shop_loud", source.replace("CALL", "True"))
    assert [(Path(each.filename).name, each.lineno) for each in warned] == [("shop_loud.py", 13)]


def test_two_tasks_of_one_name_are_refused_and_the_first_stays(app):
    first = app.task(name="same")(lambda: None)
    with pytest.raises(
        ConfigurationError,
        match=r"two tasks are named 'same': .*; give one of them another name, as in name='test_app.same'",
    ):
        app.task(name="same")(lambda: None)
    assert app.tasks["same"] is first


def test_one_decorator_declares_several_tasks_by_one_policy(app):
    bulk = app.task(queue="bulk")

    @bulk
    def one() -> None: ...

    @bulk
    def two() -> None: ...

    assert {task.policy.queue for task in (one, two)} == {"bulk"}


def test_apps_share_nothing(app):
    other = Standfast("memory://")
    app.task(name="mine")(lambda: None)
    assert other.tasks == {}
    assert other.backend is not app.backend


def test_nothing_is_opened_until_it_is_needed(tmp_path):
    app = Standfast(f"sqlite:///{tmp_path}/jobs.db")

    @app.task
    def idle() -> None: ...

    app.close()
    assert list(tmp_path.iterdir()) == []


def test_the_store_is_opened_once_however_many_threads_ask(app, monkeypatch):
    opened = []
    together = threading.Barrier(8)

    def slow_open(*args):
        opened.append(real_open_backend(*args))
        return opened[-1]

    def ask():
        together.wait()
        seen.append(app.backend)

    seen: list[object] = []
    monkeypatch.setattr("standfast.app.open_backend", slow_open)
    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 1
    assert seen == opened * 8


FORK = """
import os, signal, sys, threading
import standfast.stores.url
from standfast import Standfast, app as module

app, real, begun, rest = Standfast("memory://"), module.open_backend, threading.Event(), threading.Event()

def slow(*args):
    begun.set()
    rest.wait(float(sys.argv[1]))
    return real(*args)

def fork():
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        app.backend
        os._exit(0)
    return os.waitpid(child, 0)[1]

module.open_backend = slow
standfast.stores.url.FORK_PATIENCE = 0.2
opening = threading.Thread(target=lambda: app.backend)
opening.start()
begun.wait()
module.open_backend = real
assert fork() == 0
rest.set()
opening.join()
opened = app.backend
assert fork() == 0
with standfast.stores.url.OPEN_LOCK.lock:
    assert app.backend is opened
    assert fork() == 0
app.close()
app.backend
"""


@pytest.mark.parametrize("seconds", ["0.05", "30"])
def test_a_fork_while_the_store_is_opened_hangs_nobody(seconds):
    """A fork waits for who opens, but not for ever, and the child opens its own."""
    command = [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", FORK, seconds]
    subprocess.run(command, check=True, timeout=60)


def test_an_open_store_is_had_without_a_lock(app):
    """Who holds the lock of opening is in nobody's way once the store is open."""
    opened, seen = app.backend, []
    with OPEN_LOCK.lock:
        asking = threading.Thread(target=lambda: seen.append(app.backend), daemon=True)
        asking.start()
        asking.join(10)
    assert seen == [opened]


def test_any_verb_can_be_called_sync_and_async(app):
    app.call(app.verbs.pause("mail"))
    (queue,) = asyncio.run(app.acall(app.verbs.queues()))
    assert queue.name == "mail"
    assert set(app.call(count_states(app.verbs))) == set(State)


@pytest.mark.parametrize("is_async", [False, True])
def test_an_error_in_a_later_transaction_tells_what_is_stored(app, monkeypatch, is_async):
    """A failure after the first thousand says how many are stored; one before them says nothing of the kind."""

    @app.task
    def add(a: int) -> None: ...

    def enqueue_many():
        many = [{"a": n} for n in range(JOBS_PER_CALL + 1)]
        return asyncio.run(add.aenqueue_many(many)) if is_async else add.enqueue_many(many)

    def failing(verb):
        if not room:
            raise StoreFullError("no room")
        room.pop()
        return run(verb)

    engine = app.backend._engine()
    run, room = engine.run, [1]
    monkeypatch.setattr(engine, "run", failing)
    with pytest.raises(StoreFullError) as second:
        enqueue_many()
    assert second.value.__notes__ == ["the first 1000 of these jobs are stored: do not enqueue them again"]
    with pytest.raises(StoreFullError) as first:
        enqueue_many()
    assert not hasattr(first.value, "__notes__")
    room.append(1)
    assert sum(app.call(count_states(app.verbs)).values()) == JOBS_PER_CALL


def test_closing_twice_is_harmless_and_a_closed_app_opens_again():
    app = Standfast("memory://")
    first = app.backend
    app.close()
    app.close()
    assert app.backend is not first


def test_the_clock_given_is_the_store_s_clock():
    clock = FakeClock()
    app = Standfast("memory://", clock=clock)

    @app.task
    def now() -> None: ...

    assert now.enqueue().job().created_at == clock.now()


def test_the_environment_overrides_the_url(monkeypatch):
    monkeypatch.setenv("STANDFAST_URL", "memory://")
    assert isinstance(Standfast("sqlite:///never.db").backend, MemoryBackend)


def test_settings_are_checked_when_the_app_is_made():
    with pytest.raises(ConfigurationError, match=r"lease=-1 .* above 0 seconds.*concurrency=0 .* from 1 to 10,000"):
        Standfast("memory://", lease=-1, concurrency=0)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("broker", r"the URL of the store is the first argument, as in Standfast\(\"redis://localhost\"\)"),
        ("backend", r"results are in the store, whose URL is the first argument"),
        ("max_attempts", r"give it to the task: @app\.task\(max_attempts=\.\.\.\)"),
        ("max_retries", r"give it to the task: @app\.task\(max_attempts=\.\.\.\)"),
        ("backoff", r"give it to the task: @app\.task\(backoff=\.\.\.\)"),
        ("queue", r"give it to the task: @app\.task\(queue=\.\.\.\)"),
        ("time_out", r"did you mean timeout\?"),
        ("concurency", r"did you mean concurrency\?"),
        ("default_timeout", r"did you mean timeout\?"),
        ("time_limit", r"did you mean timeout\?"),
    ],
)
def test_an_option_that_an_app_does_not_have_is_refused_with_what_was_meant(option, said):
    with pytest.raises(ConfigurationError, match=f"Standfast has no option '{option}'; {said}"):
        Standfast("myapp", **{option: 2})


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("chord", "a task has no signatures"),
        ("chain", "use ctx.step"),
        ("group", "a task has no signatures"),
        ("shared_task", "@app.task"),
        ("Celery", "from standfast import Standfast"),
    ],
)
def test_an_import_of_what_other_systems_have_says_what_to_write_here(name, said):
    with pytest.raises(ImportError, match=f"cannot import name '{name}' from 'standfast'; .*{said}"):
        exec(f"from standfast import {name}")


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///jobs.db", "jobs.db"),
        ("sqlite:////var/lib/jobs.db", "/var/lib/jobs.db"),
        ("SQLite:///./a b/jöbs.db", "./a b/jöbs.db"),
    ],
)
def test_the_path_of_a_sqlite_url_is_what_follows_three_slashes(url, path):
    assert sqlite_path(url) == path


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("jobs.db", "has no scheme; write e.g. sqlite:///jobs.db"),
        ("sqlite:jobs.db", "has no scheme"),
        ("sqlite://", "three slashes before its path; write e.g. sqlite:///jobs.db"),
        ("sqlite://jobs.db", "three slashes before its path"),
        ("sqlite://user:hunter2@host/jobs.db", "three slashes before its path"),
        ("sqlite:///", "names no file"),
        ("sqlite:///data/", "names no file"),
        ("sqlite:///:memory:", "would lose every job; use memory:// in tests"),
        ("sqlite:///jobs.db?mode=ro", "takes no options"),
        ("memory://somewhere", "write memory://"),
        (
            "postgresql://user:hunter2@host:port/db",
            "cannot be read; write e.g. postgresql://user:password@host:5432",
        ),
        ("postgres://user:hunter2@host/db?schema=Jobs", r"schema.*write e.g. \?schema=jobs"),
        ("redis://:hunter2@host:port", "host and port that can be read; write e.g. redis://"),
        ("REDISS://:hunter2@", "names no host"),
        ("mysql://user:hunter2@host/db", "no store has the URL scheme 'mysql'"),
        ("user:hunter2@host", "has no scheme"),
    ],
)
def test_a_url_that_means_no_store_is_refused_without_repeating_a_password(url, said):
    with pytest.raises(ConfigurationError, match=said) as refused:
        check_url(url)
    assert "hunter2" not in str(refused.value)


def test_the_memory_store_needs_no_clock():
    assert isinstance(open_backend(load_settings({}, url="memory://")), MemoryBackend)


def test_the_version_is_the_installed_one():
    assert standfast.__version__ == version("standfast")


def test_every_exported_name_exists_and_the_list_is_sorted():
    assert all(hasattr(standfast, name) for name in standfast.__all__)
    assert standfast.__all__ == sorted(standfast.__all__)


def test_importing_standfast_loads_no_store_and_opens_nothing(tmp_path):
    seen = subprocess.run(
        [sys.executable, "-c", "import sys; from standfast import Standfast; print('\\n'.join(sys.modules))"],
        cwd=tmp_path,
        env={**os.environ, "STANDFAST_URL": "sqlite:///never.db"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert "standfast.app" in seen
    assert not {"standfast.stores.sqlite.store", "standfast.stores.memory.store", "sqlite3"} & set(seen)
    assert list(tmp_path.iterdir()) == []
