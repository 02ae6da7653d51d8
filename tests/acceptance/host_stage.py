"""Real web servers on this machine, with workers inside, and the means to stop, restart and kill them."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from fleet import HERE, PATIENCE, wait_until
from host_notes import VARIABLE, Notes

from servers.process import free_port
from standfast import Standfast, State
from standfast.model.job import Job
from standfast.stores.values import JobFilter, Worker

PYTHON = sys.executable
GRACE = 2 * round(PATIENCE)
"""Seconds of grace: a stop that comes to their end, as nobody was told of it, is too late for the test."""

LEASE = 3
OURS = ("STANDFAST_", "PYTEST_")
"""How names of the environment begin that a server does not inherit: a process of pytest has no worker in it."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A way to serve. `workers` is how many processes serve; `reloads` tells that SIGHUP restarts them."""

    name: str
    words: tuple[str, ...]
    workers: int = 1
    reloads: bool = False
    program: str = PYTHON

    def command(self, port: int, folder: Path) -> list[str]:
        return [self.program, *(word.format(port=port, here=HERE, folder=folder) for word in self.words)]


def uvicorn(name: str, *words: str, workers: int = 1, web: str = "host_asgi:web") -> Kind:
    where = ("--app-dir", "{here}", "--port", "{port}")
    return Kind(name, ("-m", "uvicorn", web, *where, *words), workers)


def gunicorn(name: str, target: str, *words: str, workers: int = 2) -> Kind:
    where = ("--chdir", "{here}", "--bind", "127.0.0.1:{port}", "--no-control-socket")
    given = ("--workers", str(workers), "--graceful-timeout", str(GRACE + 10))
    return Kind(name, ("-m", "gunicorn", target, *where, *given, *words), workers, reloads=True)


def django(name: str, *words: str) -> Kind:
    found = ("--settings", "host_django", "--pythonpath", "{here}")
    return Kind(name, ("-m", "django", "runserver", "{port}", *found, *words))


UVICORN = uvicorn("uvicorn")
GUNICORN_UVICORN = gunicorn("gunicorn-uvicorn", "host_asgi:web", "-k", "uvicorn.workers.UvicornWorker")
GUNICORN_ASGI = gunicorn("gunicorn-asgi", "host_asgi:bound", "-k", "asgi")
GUNICORN_FLASK = gunicorn("gunicorn-flask", "host_flask:web")
GUNICORN_DJANGO = gunicorn("gunicorn-django", "host_django_wsgi:web")
RUNSERVER = django("runserver", "--noreload")


class Served:
    """One server: its first process, and all that this has started."""

    def __init__(self, kind: Kind, port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.kind = kind
        self.port = port
        self.process = process
        self.log = log

    @property
    def told(self) -> str:
        return self.log.read_text(errors="replace")

    def post(self, path: str) -> str | None:
        """Return what is answered to a request, or None where the server is away just then."""
        with suppress(httpx.TransportError):
            answer = httpx.post(f"http://127.0.0.1:{self.port}/{path}", timeout=PATIENCE)
            if answer.status_code == httpx.codes.OK:
                return answer.text
            assert answer.is_server_error, answer.text
        return None

    def post_until_heard(self, path: str) -> str:
        return wait_until(lambda: self.post(path), what=f"an answer to {path}")

    def terminate(self) -> int:
        """Stop it as a deploy does; return its exit code."""
        self.process.terminate()
        return self.process.wait(PATIENCE)


class Stage:
    """One store, one file of notes, and the servers on them."""

    def __init__(self, folder: Path, url: str | None = None) -> None:
        self.folder = folder
        self.url = url or f"sqlite:///{folder / 'jobs.db'}"
        self.notes = Notes(folder / "notes")
        self.app = Standfast(self.url)
        self.servers: list[Served] = []

    # -- servers ---------------------------------------------------------------------------------------------

    def start(self, kind: Kind, port: int | None = None, **environment: str) -> Served:
        """Start a server, and wait for nothing."""
        port = port or free_port()
        log = self.folder / f"server-{len(self.servers)}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                kind.command(port, self.folder),
                cwd=self.folder,
                env={**self.environment(), **environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self.servers.append(Served(kind, port, process, log))
        return self.servers[-1]

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
        ours = {"STANDFAST_URL": self.url, "STANDFAST_LEASE": str(LEASE), "STANDFAST_GRACE": str(GRACE)}
        return {**kept, **ours, VARIABLE: str(self.notes.path), "PYTHONUNBUFFERED": "1"}

    def run(self, command: Sequence[str]) -> str:
        """Return what a program says that has the environment of the servers."""
        ended = subprocess.run(
            command, cwd=HERE, env=self.environment(), check=True, stdout=subprocess.PIPE, text=True
        )
        return ended.stdout

    def workers(self) -> tuple[Worker, ...]:
        return self.app.call(self.app.verbs.workers())

    def wait_for_workers(self, count: int, *, other_than: Sequence[int] = ()) -> set[int]:
        """Wait until so many processes have a worker, and none of these has; return their ids."""

        def found() -> list[set[int]]:
            pids = {worker.info.pid for worker in self.workers()}
            return [pids] if len(pids) == count and not pids & set(other_than) else []

        [pids] = self.wait_until(found, f"the presence of {count} workers")
        return pids

    def wait_until(self, predicate: Callable[[], Any], what: str) -> Any:
        """Return what the predicate says once that is true; where it never is, tell what the servers have said."""
        try:
            return wait_until(predicate, what=what)
        except AssertionError as error:
            for server in self.servers:
                error.add_note(f"{server.kind.name}:\n{server.told[-6000:]}")
            raise

    # -- jobs ------------------------------------------------------------------------------------------------

    def job(self, job_id: str) -> Job:
        return self.app.handle(job_id).job()

    def jobs(self) -> tuple[Job, ...]:
        return self.app.call(self.app.verbs.list_jobs(JobFilter(limit=100_000))).jobs

    def wait_for_completed(self, job_ids: Sequence[str]) -> None:
        def left() -> list[str]:
            states = {job.id: job.state for job in self.jobs()}
            return [f"{job_id} {states[job_id]}" for job_id in job_ids if states[job_id] is not State.COMPLETED]

        self.wait_until(lambda: not left(), "the completion of all jobs")

    def wait_for_note(self, what: str, job: str | None = None, times: int = 1) -> None:
        self.wait_until(lambda: len(self.notes.read(what, job)) >= times, f"{what!r} of {job or 'any job'}")

    # -- the end ---------------------------------------------------------------------------------------------

    def processes(self) -> list[int]:
        """Return the processes whose environment has our file of notes: servers, and beaters beside them."""
        listed = subprocess.run(["ps", "axeww", "-o", "pid=,stat=,command="], check=True, capture_output=True)
        rows = [line.split(None, 2) for line in listed.stdout.decode(errors="replace").splitlines()]
        mark = f"{VARIABLE}={self.notes.path}"
        return [int(pid) for pid, stat, command in rows if mark in command and stat[0] != "Z"]

    def close(self) -> None:
        """End all servers at once; their beaters give back what they had, and end."""
        self.app.close()
        for server in self.servers:
            with suppress(ProcessLookupError):
                os.killpg(server.process.pid, signal.SIGKILL)
            server.process.wait()
        wait_until(lambda: not self.processes(), what="the end of all beaters")
