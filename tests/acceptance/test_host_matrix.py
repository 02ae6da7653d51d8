"""Each web server that has a worker inside runs its jobs, and its stop gives back what runs: nothing is charged.

`make prove NAME=host_matrix` runs the oldest and the newest release of eleven servers on each Python of this
machine, installed into a folder of its own. It needs a C compiler, and Apache's headers or `apt-get` for mod_wsgi.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from pwd import getpwnam

import pytest
from fleet import HERE, PATIENCE, PROVE
from host_stage import PYTHON, Kind, Stage, django, gunicorn, uvicorn

from standfast import State
from standfast.model.records import Kind as RecordKind

ROOT = HERE.parents[1]
LAB = Path.home() / ".cache" / "standfast-host-matrix"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")

pytestmark = pytest.mark.timeout(900 if PROVE else 120)


@dataclass(frozen=True, slots=True)
class Server:
    """A way to serve, and the releases of its package with which that is tried. `told` is in its log."""

    kind: Kind
    releases: tuple[str, ...]
    told: str = ""
    store: str = "sqlite"


DAPHNE = ("-m", "daphne", "--port", "{port}")
NO_LIFESPAN = "this server has not sent a lifespan"
FLASK_RUN = Kind("flask-run", ("-m", "flask", "--app", "{here}/host_flask.py", "run", "--port", "{port}"))
WAITRESS = Kind("waitress", ("-m", "waitress", "--listen", "127.0.0.1:{port}", "host_flask:web"))
HYPERCORN = Kind("hypercorn", ("-m", "hypercorn", "--bind", "127.0.0.1:{port}", "host_asgi:web"))
HYPERCORN_DJANGO = Kind("hypercorn-django", (*HYPERCORN.words[:-1], "host_django_wsgi:asgi"))
UWSGI_WORDS = (
    "--http-socket",
    "127.0.0.1:{port}",
    "--module",
    "host_flask:web",
    "--enable-threads",
    "--die-on-term",
)
MOD_WSGI_WORDS = (
    "start-server",
    "{here}/host_flask.py",
    "--callable-object",
    "web",
    "--port",
    "{port}",
    "--log-to-terminal",
    "--server-root",
)

SHORT = (
    Server(uvicorn("uvicorn-django", web="host_django_wsgi:asgi"), ()),
    Server(Kind("daphne", (*DAPHNE, "host_asgi:web")), (), NO_LIFESPAN),
    Server(Kind("daphne-bound", (*DAPHNE, "host_asgi:bound")), (), NO_LIFESPAN),
    Server(WAITRESS, ()),
)
FULL = (
    Server(uvicorn("uvicorn"), ("uvicorn==0.32.0", "uvicorn")),
    Server(uvicorn("uvicorn-django", web="host_django_wsgi:asgi"), ("uvicorn==0.32.0", "uvicorn")),
    Server(uvicorn("uvicorn-workers", "--workers", "2", workers=2), ("uvicorn==0.32.0", "uvicorn")),
    Server(HYPERCORN, ("hypercorn==0.17.3", "hypercorn")),
    Server(HYPERCORN_DJANGO, ("hypercorn==0.17.3", "hypercorn")),
    Server(gunicorn("gunicorn", "host_flask:web"), ("gunicorn==23.0.0", "gunicorn")),
    Server(gunicorn("gunicorn-preload", "host_flask:web", "--preload"), ("gunicorn==23.0.0", "gunicorn")),
    Server(
        gunicorn("gunicorn-uvicorn", "host_asgi:web", "-k", "uvicorn.workers.UvicornWorker"),
        ("gunicorn==23.0.0 uvicorn==0.32.0", "gunicorn uvicorn"),
    ),
    Server(gunicorn("gunicorn-asgi", "host_asgi:bound", "-k", "asgi"), ("gunicorn",)),
    Server(Kind("daphne", (*DAPHNE, "host_asgi:web")), ("daphne==4.1.0", "daphne"), NO_LIFESPAN),
    Server(Kind("daphne-bound", (*DAPHNE, "host_asgi:bound")), ("daphne==4.1.0", "daphne"), NO_LIFESPAN),
    Server(Kind("daphne-django", (*DAPHNE, "host_django_wsgi:asgi")), ("daphne==4.1.0", "daphne")),
    Server(WAITRESS, ("waitress==3.0.0", "waitress")),
    Server(replace(WAITRESS, name="waitress-postgres"), ("waitress",), store="postgres"),
    Server(replace(WAITRESS, name="waitress-redis"), ("waitress",), store="redis"),
    Server(Kind("uwsgi", UWSGI_WORDS, program="uwsgi"), ("uwsgi==2.0.28", "uwsgi")),
    Server(
        Kind("uwsgi-master", (*UWSGI_WORDS, "--master", "-p", "2"), 2, program="uwsgi"), ("uwsgi==2.0.28", "uwsgi")
    ),
    Server(
        Kind("mod_wsgi", (*MOD_WSGI_WORDS, "{folder}/apache"), program="mod_wsgi-express"),
        ("mod_wsgi==5.0.2", "mod_wsgi"),
    ),
    Server(FLASK_RUN, ("flask==3.0.0", "flask")),
    Server(django("runserver", "--noreload"), ("django==5.1", "django")),
)


def pythons():
    """Return the Pythons of this machine by their versions: those of pyenv, and those on PATH."""
    roots = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = {path.parents[1].name: str(path) for path in sorted(roots.glob("3.*/bin/python3"))}
    for version in PYTHONS:
        if not any(each.startswith(f"{version}.") for each in found) and (path := shutil.which(f"python{version}")):
            found[version] = path
    return {name: path for name, path in found.items() if name.startswith(PYTHONS)}


def cases():
    if not PROVE:
        return [pytest.param(server, "", "", id=server.kind.name) for server in SHORT]
    return [
        pytest.param(
            server, python, release, id=f"{server.kind.name}-{release or 'newest'}-{python}".replace(" ", "+")
        )
        for python in pythons()
        for server in FULL
        for release in server.releases
    ]


def run(*words, **more):
    subprocess.run(words, check=True, stdout=sys.stderr, **more)


def installed(python, release):
    """Return the folder of a virtual environment, and that of a server beside it, both made when first needed."""
    venv = LAB / python
    made, wanted = venv / "made", (ROOT / "pyproject.toml").read_text()
    if not made.exists() or made.read_text() != wanted:
        run(pythons()[python], "-m", "venv", "--clear", str(venv))
        pip(venv, "pip>=25.1")
        pip(venv, "--editable", f"{ROOT}[postgres,redis]", "django", "flask", "starlette", "uvicorn")
        made.write_text(wanted)
    folder = LAB / f"{python}-{release.replace(' ', '+')}"
    if not (folder / "made").exists():
        if "mod_wsgi" in release and shutil.which("apxs") is None:
            run("apt-get", "install", "--yes", "--no-install-recommends", "apache2-dev", "apache2")
        pip(venv, "--upgrade", "--target", str(folder), *release.split())
        (folder / "made").touch()
    return venv, folder


def pip(venv, *words):
    quiet = ("--quiet", "--no-input", "--disable-pip-version-check")
    run(str(venv / "bin" / "python"), "-m", "pip", "install", *quiet, *words)


@pytest.fixture
def stage(request, tmp_path, server):
    stage = Stage(tmp_path, None if server.store == "sqlite" else request.getfixturevalue(f"{server.store}_url"))
    try:
        yield stage
    finally:
        stage.close()


@pytest.mark.parametrize(("server", "python", "release"), cases())
def test_a_server_runs_jobs_and_gives_back_what_runs_when_it_stops(stage, server, python, release):
    """Scheduled jobs run before any request; a stop tells the job that runs, which goes back without a charge."""
    kind, path, environment = server.kind, [str(HERE)], {}
    if release:
        venv, folder = installed(python, release)
        program = venv / "bin" / "python" if kind.program == PYTHON else folder / "bin" / kind.program
        kind = replace(kind, program=str(program))
        path = [str(ROOT / "src"), str(HERE), str(folder)]
        environment = {"UWSGI_VIRTUALENV": str(venv)}
        if (
            "mod_wsgi" in release and os.getuid() == 0
        ):  # Apache refuses to be root: it is told another name for that
            other = f"--map-user={getpwnam('www-data').pw_uid}"
            kind = replace(kind, program="unshare", words=("--user", other, str(program), *kind.words))
        if "gunicorn==23" in release:  # which has no control socket yet
            kind = replace(kind, words=tuple(word for word in kind.words if word != "--no-control-socket"))
    serving = stage.start(kind, PYTHONPATH=os.pathsep.join(path), **environment)
    stage.wait_for_note("done")
    stage.wait_for_workers(kind.workers)
    held = serving.post_until_heard("hold")
    stage.wait_for_note("start", held)
    serving.process.terminate()
    serving.process.wait(PATIENCE)
    stage.wait_for_workers(0)
    job = stage.job(held)
    # Of several processes one may stop a moment later than the other, and run it.
    assert job.state in {State.READY, *([State.COMPLETED] if kind.workers > 1 else [])}, serving.told
    assert (job.attempt, job.crashes) == (0, 0), serving.told
    assert len(stage.notes.read("asked", held)) == 1, serving.told
    assert stage.app.call(stage.app.verbs.records(RecordKind.INCIDENT)) == (), serving.told
    assert server.told in serving.told
