"""A worker lives in processes that serve requests, and in no others: each kind as it looks from inside."""

import pytest

from standfast.errors import ConfigurationError
from standfast.hosts.detection import Scene, Verdict, decide, decide_for_server, scene_here

SERVES, AFTER_FORK, NOT, UNKNOWN = Verdict.SERVES, Verdict.AFTER_FORK, Verdict.NOT, Verdict.UNKNOWN

BOUND = ("shop.web", "<module>")
SPAWNED = ("gunicorn.arbiter", "spawn_worker")
STARTING = ("gunicorn.arbiter", "run")
MANAGED = ("django.core.management", "execute_from_command_line")
FLASK = ("flask.cli", "load_app")
GUNICORN = ("gunicorn.app.base", "run")
UVICORN = ("uvicorn.main", "run")
HYPERCORN = ("hypercorn.run", "run")


def scene(*frames, argv=("server",), **more):
    return Scene(frames=(BOUND, *frames), argv=argv, **more)


def django(*argv, **environ):
    return scene(MANAGED, argv=("manage.py", *argv), environ=environ)


def flask(*argv, **environ):
    return scene(FLASK, argv=("/venv/bin/flask", *argv), environ=environ)


TABLE = [
    ("gunicorn's worker", scene(("gunicorn.workers.base", "load_wsgi"), SPAWNED, STARTING), SERVES),
    ("gunicorn's master with --preload", scene(("gunicorn.app.base", "wsgi"), STARTING), AFTER_FORK),
    ("gunicorn's worker, forked by another name", scene(("gunicorn.workers.base", "load"), STARTING), SERVES),
    ("gunicorn's dirty worker", scene(("gunicorn.dirty.app", "load"), STARTING), NOT),
    ("gunicorn --check-config", scene(GUNICORN, argv=("gunicorn", "--check-config", "shop:web")), NOT),
    ("gunicorn.conf.py, before any fork", scene(GUNICORN), AFTER_FORK),
    ("uvicorn", scene(("uvicorn.config", "load"), ("uvicorn.server", "serve")), SERVES),
    ("uvicorn 0.54", scene(("uvicorn.config", "load_app"), UVICORN, argv=("uvicorn", "shop:web")), SERVES),
    (
        "uvicorn, one worker",
        scene(("uvicorn.config", "load_app"), UVICORN, argv=("uvicorn", "--workers=1")),
        SERVES,
    ),
    ("uvicorn, when its functions have other names", scene(UVICORN), UNKNOWN),
    (
        "uvicorn's worker",
        scene(("uvicorn.anything", "load"), argv=("uvicorn", "--workers", "2"), spawned=True),
        SERVES,
    ),
    ("uvicorn's reloader", scene(UVICORN, argv=("uvicorn", "shop:web", "--reload")), NOT),
    ("uvicorn's master", scene(("uvicorn.config", "load_app"), argv=("uvicorn", "--workers", "2")), NOT),
    ("hypercorn's worker", scene(("hypercorn.utils", "load"), HYPERCORN, spawned=True), SERVES),
    ("hypercorn without workers", scene(("hypercorn.utils", "load"), ("hypercorn.asyncio.run", "work")), SERVES),
    ("hypercorn without workers, otherwise named", scene(HYPERCORN, argv=("hypercorn", "-w", "0")), UNKNOWN),
    ("hypercorn's master", scene(HYPERCORN), NOT),
    ("daphne", scene(("daphne.cli", "run")), SERVES),
    ("daphne, when its functions have other names", scene(("daphne.start", "run"), argv=("/bin/daphne",)), SERVES),
    ("waitress", scene(("waitress.runner", "run")), SERVES),
    ("waitress, when its functions have other names", scene(("waitress.start", "run"), main="waitress"), SERVES),
    ("mod_wsgi", scene(modules={"mod_wsgi"}), SERVES),
    ("uWSGI's worker", scene(uwsgi_worker=2), SERVES),
    ("uWSGI's master", scene(uwsgi_worker=0), AFTER_FORK),
    ("uWSGI's mule", scene(uwsgi_worker=-1), NOT),
    ("runserver's reloader", django("runserver"), NOT),
    ("runserver", django("runserver", "0:8000", RUN_MAIN="true"), SERVES),
    ("runserver without a reloader", django("runserver", "--noreload"), SERVES),
    ("runserver of an extension", django("runserver_plus"), UNKNOWN),
    ("migrate", django("migrate"), NOT),
    ("manage.py alone", django(), NOT),
    ("flask run", flask("--app", "run", "run"), SERVES),
    ("flask run, reloading: the parent", flask("-A", "web", "run", "--reload"), NOT),
    ("flask run, reloading: the child", flask("-A", "web", "run", "--reload", WERKZEUG_RUN_MAIN="true"), SERVES),
    ("flask run --debug: the parent", flask("--app", "web", "--debug", "run"), NOT),
    ("flask run, FLASK_DEBUG: the parent", flask("run", FLASK_DEBUG="1"), NOT),
    ("flask run --debug --no-reload", flask("run", "--debug", "--no-reload"), SERVES),
    ("flask shell", flask("--app", "web", "shell"), NOT),
    ("flask db upgrade", flask("db", "upgrade", "--app", "run"), NOT),
    ("a shell", scene(interactive=True), NOT),
    ("pytest", scene(argv=("/venv/bin/pytest",)), NOT),
    ("python -m pytest", scene(main="pytest.__main__"), NOT),
    ("a test", scene(SPAWNED, environ={"PYTEST_CURRENT_TEST": "test_it"}), NOT),
    ("a child of standfast worker", scene(main="standfast.hosts.child"), NOT),
    ("a cell", scene(main="standfast.hosts.subprocess"), NOT),
    ("standfast doctor", scene(argv=("/venv/bin/standfast", "doctor")), NOT),
    ("a script", scene(argv=("serve.py",)), UNKNOWN),
    ("a script, switched on", scene(environ={"STANDFAST_HOST": "on"}), SERVES),
    ("gunicorn's worker, switched off", scene(SPAWNED, environ={"STANDFAST_HOST": "OFF"}), NOT),
]


@pytest.mark.parametrize(("where", "verdict"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_who_serves(where, verdict):
    assert decide(where).verdict is verdict


def test_a_server_whose_process_cannot_be_told_is_named():
    """The warning that follows says which server it is."""
    assert decide(scene(UVICORN)).reason == "it is not known whether this process of uvicorn serves requests"


def test_a_server_of_asgi_says_itself_that_it_serves():
    """Whatever it is called; only a test, and the switch, know better."""
    assert decide_for_server(scene(("somebody.elses.server", "run"))).verdict is SERVES
    assert decide_for_server(scene(("uvicorn.lifespan.on", "main"))).verdict is SERVES
    assert decide_for_server(scene(main="pytest.__main__")).verdict is NOT
    assert decide_for_server(scene(environ={"STANDFAST_HOST": "off"})).verdict is NOT


def test_a_switch_that_is_neither_on_nor_off_is_refused():
    with pytest.raises(ConfigurationError, match="it takes `on` or `off`"):
        decide(scene(environ={"STANDFAST_HOST": "maybe"}))


def test_this_process_is_a_test():
    """The real scene: what called is there, the innermost first."""
    here = scene_here()
    assert here.frames[0] == (__name__, "test_this_process_is_a_test")
    assert here.called_by("_pytest")
    assert decide(here).verdict is NOT
