"""What a host is given is checked at once, and what other processes would have to load is found out."""

import sys
from types import ModuleType

import pytest

from standfast import Standfast
from standfast.errors import ConfigurationError
from standfast.hosts.detection import refuse_greenlets
from standfast.hosts.host import Host, HostState, find_target


def module(name, file, **contents):
    made = ModuleType(name)
    made.__file__ = file
    vars(made).update(contents)
    return made


@pytest.fixture
def app():
    with Standfast("memory://") as app:
        yield app


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"queues": "mail,,x"}, "empty name"),
        ({"queues": "mail=0"}, 'queues="critical=6,mail=3"'),
        ({"concurrency": 0}, "concurrency"),
        ({"grace": -1}, "grace"),
    ],
)
def test_what_makes_no_sense_is_refused(app, options, words):
    with pytest.raises(ConfigurationError, match=words):
        Host(app, **options)


def test_what_is_no_app_is_refused():
    with pytest.raises(ConfigurationError, match=r"not for a str$"):
        Host("postgresql://app:secret@db/jobs")


def test_a_store_in_memory_is_refused(app):
    """The beater is another process, and would beat elsewhere."""
    host = Host(app)
    with pytest.raises(ConfigurationError, match="memory store"):
        host.start()
    assert host.state is HostState.NEW


def test_the_module_with_the_tasks_is_what_others_load(app):
    """Not one that only imports the app, nor the script that runs: that would run it again."""

    def pack():
        pass

    pack.__module__ = "shop.jobs"
    app.task(pack)
    modules = {
        "__main__": module("__main__", "/srv/serve.py", app=app),
        "shop.jobs": module("shop.jobs", "/srv/shop/jobs.py", app=app, _hidden=app),
        "shop.web": module("shop.web", "/srv/shop/web.py", jobs=app),
    }
    assert (find_target(app, None, modules).name, find_target(app, None, modules).app_dir) == (
        "shop.jobs:app",
        "/srv",
    )
    given = find_target(app, "shop.web:jobs", modules)
    assert (given.name, given.app_dir) == ("shop.web:jobs", "/srv")
    with pytest.raises(ConfigurationError, match="is not MODULE:APP"):
        find_target(app, "shop.web", modules)
    for mistyped in ("shop.jobz:app", "no_such_module:app", "standfast.no_such_module:app"):
        with pytest.raises(ConfigurationError, match="there is no module"):
            find_target(app, mistyped, modules)


def test_a_package_is_imported_from_the_folder_above_it(app):
    modules = {"shop": module("shop", "/srv/shop/__init__.py", app=app)}
    assert find_target(app, None, modules).app_dir == "/srv"


def test_isolated_tasks_need_a_module_to_load(app):
    """Others do without: a suspect then runs in the host, too."""
    script = {"__main__": module("__main__", "/srv/serve.py", app=app)}
    assert find_target(app, None, script).name == ""

    @app.task(isolation="process")
    def heavy() -> None: ...

    with pytest.raises(ConfigurationError, match="give target="):
        find_target(app, None, script)


def test_greenlets_are_refused():
    patched = module("gevent.monkey", "", is_module_patched=lambda name: name == "threading")
    with pytest.raises(ConfigurationError, match="gthread"):
        refuse_greenlets({"gevent.monkey": patched})
    refuse_greenlets({**sys.modules})
