"""A worker lives in processes that serve requests, and in no others: each kind as it looks from inside."""

import pytest

from holdfast.errors import ConfigurationError
from holdfast.host.serving import Scene, Verdict, decide, decide_for_server, scene_here

SERVES, AFTER_FORK, NOT, UNKNOWN = Verdict.SERVES, Verdict.AFTER_FORK, Verdict.NOT, Verdict.UNKNOWN

BOUND = ("shop.web", "<module>")
SPAWNED = ("gunicorn.arbiter", "spawn_worker")
STARTING = ("gunicorn.arbiter", "run")
MANAGED = ("django.core.management", "execute_from_command_line")
FLASK = ("flask.cli", "load_app")


def scene(*frames, argv=("server",), **more):
    return Scene(frames=(BOUND, *frames), argv=argv, **more)


def django(*argv, **environ):
    return scene(MANAGED, argv=("manage.py", *argv), environ=environ)


def flask(*argv, **environ):
    return scene(FLASK, argv=("/venv/bin/flask", *argv), environ=environ)


TABLE = [
    ("gunicorn's worker", scene(("gunicorn.workers.base", "load_wsgi"), SPAWNED, STARTING), SERVES),
    ("gunicorn's master with --preload", scene(("gunicorn.app.base", "wsgi"), STARTING), AFTER_FORK),
    ("gunicorn --check-config", scene(("gunicorn.app.base", "run")), NOT),
    ("uvicorn", scene(("uvicorn.config", "load"), ("uvicorn.server", "serve")), SERVES),
    ("uvicorn's reloader", scene(("uvicorn.main", "run")), NOT),
    ("hypercorn's worker", scene(("hypercorn.utils", "load"), ("hypercorn.asyncio.run", "asyncio_worker")), SERVES),
    ("hypercorn's master", scene(("hypercorn.run", "run")), NOT),
    ("daphne", scene(("daphne.cli", "run")), SERVES),
    ("waitress", scene(("waitress.runner", "run")), SERVES),
    ("mod_wsgi", scene(modules={"mod_wsgi"}), SERVES),
    ("uWSGI's worker", scene(uwsgi_worker=2), SERVES),
    ("uWSGI's master", scene(uwsgi_worker=0), AFTER_FORK),
    ("uWSGI's mule", scene(uwsgi_worker=-1), NOT),
    ("runserver's reloader", django("runserver"), NOT),
    ("runserver", django("runserver", "0:8000", RUN_MAIN="true"), SERVES),
    ("runserver without a reloader", django("runserver", "--noreload"), SERVES),
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
    ("a child of holdfast worker", scene(main="holdfast.child.__main__"), NOT),
    ("a cell", scene(main="holdfast.child.cell"), NOT),
    ("holdfast doctor", scene(argv=("/venv/bin/holdfast", "doctor")), NOT),
    ("a script", scene(argv=("serve.py",)), UNKNOWN),
    ("a script, switched on", scene(environ={"HOLDFAST_HOST": "on"}), SERVES),
    ("gunicorn's worker, switched off", scene(SPAWNED, environ={"HOLDFAST_HOST": "OFF"}), NOT),
]


@pytest.mark.parametrize(("where", "verdict"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_who_serves(where, verdict):
    assert decide(where).verdict is verdict


def test_a_server_of_asgi_says_itself_that_it_serves():
    """Whatever it is called; only a test, and the switch, know better."""
    assert decide_for_server(scene(("somebody.elses.server", "run"))).verdict is SERVES
    assert decide_for_server(scene(("uvicorn.lifespan.on", "main"))).verdict is SERVES
    assert decide_for_server(scene(main="pytest.__main__")).verdict is NOT
    assert decide_for_server(scene(environ={"HOLDFAST_HOST": "off"})).verdict is NOT


def test_a_switch_that_is_neither_on_nor_off_is_refused():
    with pytest.raises(ConfigurationError, match="it takes `on` or `off`"):
        decide(scene(environ={"HOLDFAST_HOST": "maybe"}))


def test_this_process_is_a_test():
    """The real scene: what called is there, the innermost first."""
    here = scene_here()
    assert here.frames[0] == (__name__, "test_this_process_is_a_test")
    assert here.called_by("_pytest")
    assert decide(here).verdict is NOT
