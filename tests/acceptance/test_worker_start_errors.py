"""A worker that cannot start says why in one line, with what to do, and exits with a code that means something."""

import pytest
from shopfloor import Shop, assert_one_line, run

USAGE, STORE = 2, 3

MODULES = {
    "missing_import.py": "import nonexistent_library\n",
    "broken.py": "def broken(:\n",
    "raising.py": "raise RuntimeError('the licence\\nhas expired')\n",
    "leaving.py": "import sys\nsys.exit('not today')\n",
    "no_app.py": "app = 42\n",
    "bad_setting.py": "from standfast import Standfast\napp = Standfast('sqlite:///x.db', lease=-1)\n",
    "bad_url.py": "from standfast import Standfast\napp = Standfast('sqlite://x.db')\n",
    "bad_port.py": "from standfast import Standfast\napp = Standfast('postgresql://u:secret@h:99999/d')\n",
    "memory.py": "from standfast import Standfast\napp = Standfast('memory://')\n",
    "twice.py": "from standfast import Standfast\napp = Standfast('sqlite:///x.db')\n"
    "def one(): ...\napp.task(name='a')(one)\napp.task(name='a')(one)\n",
}

ERRORS = {
    "shop": ("MODULE:APP", "standfast worker myproject.jobs:app"),
    "nowhere:app": ("there is no module 'nowhere'", "--app-dir"),
    "nowhere.inside:app": ("there is no module 'nowhere.inside'", "--app-dir"),
    "missing_import:app": ("missing_import cannot be imported", "nonexistent_library"),
    "broken:app": ("broken cannot be imported", "SyntaxError", "line 1"),
    "raising:app": ("raising cannot be imported", "RuntimeError", "the licence"),
    "leaving:app": ("leaving", "not today"),
    "shop:ap": ("shop has no app named 'ap'", "did you mean shop:app?"),
    "shop:pack": ("shop has no app named 'pack'", "did you mean shop:app?"),
    "no_app:app": ("no_app has no app named 'app'", "must be a Standfast(...) object"),
    "bad_setting:app": ("lease=-1 (from the code): must be above 0 seconds",),
    "bad_url:app": ("three slashes",),
    "bad_port:app": ("a port in the PostgreSQL URL is not between 1 and 65535",),
    "memory:app": ("a memory store lives inside one process", "sqlite:///standfast.db"),
    "twice:app": ("two tasks are named 'a'",),
}


@pytest.mark.parametrize("target", ERRORS)
def test_worker_start_errors(tmp_path, target):
    """A bad target, an import that fails, a missing app or a bad setting is told in one line, with exit code 2."""
    for name, source in MODULES.items():
        (tmp_path / name).write_text(source)
    with Shop(tmp_path) as shop:
        ended = run("worker", target, "--app-dir", str(tmp_path))
        assert ended.returncode == USAGE, ended.stderr
        assert_one_line(ended.stderr, *ERRORS[target])
        assert ended.stdout == ""
        assert "secret" not in ended.stderr
        assert not shop.database.exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--concurency", "3"], ["--concurency", "--concurrency"]),
        (["--concurrency", "none"], ["--concurrency", "none"]),
        (["--lease", "0"], ["--lease"]),
        (["--lease", "0.1"], ["beat", "half the lease"]),
        (["--app-dir", "/nowhere"], ["/nowhere", "does not exist"]),
        (["--url", "mysql://u:secret@h/d"], ["mysql"]),
    ],
    ids=" ".join,
)
def test_worker_start_errors_of_options(tmp_path, options, words):
    """An unknown or impossible option is told in one line that names it, with exit code 2."""
    with Shop(tmp_path):
        ended = run("worker", "shop:app", "--app-dir", str(tmp_path), *options)
        assert ended.returncode == USAGE, ended.stderr
        assert_one_line(ended.stderr, *words)
        assert "secret" not in ended.stderr


def test_worker_start_errors_of_another_release(tmp_path):
    """A store of a newer release is refused in one line that says to upgrade, with exit code 3, and left alone."""
    with Shop(tmp_path) as shop:
        handle = shop.tasks.pack.enqueue(order=1)
        [(ours,)] = shop.sql("SELECT version FROM standfast_schema")
        shop.sql("UPDATE standfast_schema SET version = 99")
        ended = run("worker", "shop:app", "--app-dir", str(tmp_path))
        assert ended.returncode == STORE, ended.stderr
        assert_one_line(ended.stderr, "newer Standfast", "schema 99", "upgrade")
        assert shop.sql("SELECT state, fence FROM standfast_job") == [("ready", 0)]
        shop.sql(f"UPDATE standfast_schema SET version = {ours}")
        shop.drain()
        assert handle.result(timeout=0) == 1
