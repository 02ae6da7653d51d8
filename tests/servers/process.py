"""A server process of ours: started, stopped, killed, paused, and gone with its folder at the end."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import SystemRandom
from secrets import token_hex
from typing import Any, ClassVar, Self

PATIENCE = 60.0
"""Seconds after which a server that does not answer, or does not end, never will."""

POLL = 0.01

PORTS = range(10_000, 22_000)
"""Below the ports that a system gives to those who connect: while a server is down, nobody else takes its port."""

GUARD = str(Path(__file__).with_name("guard.py"))

SHELTER = Path("/tmp")  # a user without rights must reach it, which pytest's own folders prevent
_USERS = ("postgres", "nobody")


class MissingPartError(RuntimeError):
    """The tests need something that is not installed. The message says how to get it."""


class Server:
    """One server on this machine's loopback, reached only by who knows its password."""

    kind: ClassVar[str]
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM

    def __init__(self, settings: Mapping[str, Any], heir_of: Self | None = None) -> None:
        self.settings = {name: str(value) for name, value in settings.items()}
        self.port = free_port()
        if heir_of is None:
            self.password = token_hex(
                12
            )  # no dash, which would make it an option where it is one of a command's words
            self.folder = Path(tempfile.mkdtemp(prefix=f"standfast-{self.kind}-", dir=SHELTER))
            give_away(self.folder)
            self._prepare()
        else:
            self.password = heir_of.password
            self.folder = heir_of.folder
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._paused: list[int] = []

    # -- what each kind of server says of itself ---------------------------------------------------------------

    def _prepare(self) -> None:
        """Make what the folder must hold before the first start."""

    def _command(self) -> Sequence[str | Path]:
        raise NotImplementedError

    def _check(self) -> None:
        """Raise unless the server answers."""
        raise NotImplementedError

    def _surroundings(self) -> Mapping[str, str]:
        """Return what the environment of the server must say besides."""
        return {}

    # -- its life ----------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start it, and return once it answers."""
        assert self._process is None, "it runs already"
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(word) for word in self._command()],
                cwd=self.folder,
                env={**os.environ, **self._surroundings()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # an interrupt at the keyboard is for the tests, which then stop it
                **unprivileged(),
            )
        self._guard = subprocess.Popen(
            [sys.executable, "-S", GUARD, str(self._process.pid), str(self.folder)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        give_up_at = time.monotonic() + PATIENCE
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > give_up_at:
                said = self.log
                self.close()
                raise RuntimeError(f"the test's {self.kind} server did not start:\n{said[-3000:]}")
            time.sleep(POLL)
        return self

    def stop(self) -> None:
        """Let it end in good order."""
        self._end(self.stop_signal)

    def kill(self) -> None:
        """End it and its children at once, as the end of the machine would."""
        children = self._children() if self._process else []
        self._end(signal.SIGKILL)
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        wait_for_end_of(children)

    def restart(self) -> None:
        """Start it again with the same port and data; it is stopped first where it runs."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Let it stand still with everything open, as an overloaded machine does."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)  # the first, so that it has no further children
        self._paused = [self._process.pid, *self._children()]
        for pid in self._paused:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)

    def cont(self) -> None:
        """Let it go on."""
        for pid in self._paused:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self._paused = []

    def close(self) -> None:
        """End it whatever state it is in, and remove its folder."""
        self.cont()
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The first of its processes."""
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        """What it has said so far."""
        return (self.folder / "log").read_text(errors="replace")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _answers(self) -> bool:
        try:
            self._check()
        except Exception:  # noqa: BLE001 - each client has errors of its own, and start() gives up in time
            return False
        return True

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        finally:
            self._dismiss_guard()

    def _dismiss_guard(self) -> None:
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.kill()  # before it reads the end of its input
            guard.wait()
            assert guard.stdin is not None
            guard.stdin.close()

    def _children(self) -> list[int]:
        assert self._process is not None
        listed = subprocess.run(["ps", "-eo", "pid=,ppid="], check=True, capture_output=True, text=True).stdout
        pairs = [line.split() for line in listed.splitlines()]
        return [int(pid) for pid, parent in pairs if int(parent) == self._process.pid]


def free_port(*beside: int) -> int:
    """Return a port that nobody listens on, nor on those at such distances from it."""
    for port in SystemRandom().sample(PORTS, len(PORTS)):
        if all(_is_free(port + distance) for distance in (0, *beside)):
            return port
    raise RuntimeError("no port is free")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def wait_for_end_of(pids: Sequence[int]) -> None:
    """Return once none of these processes is left; they are no children of ours."""
    give_up_at = time.monotonic() + PATIENCE
    for pid in pids:
        while _is_alive(pid):
            assert time.monotonic() < give_up_at, f"process {pid} does not end"
            time.sleep(POLL)


def _is_alive(pid: int) -> bool:
    """Tell whether a process has not ended; one that nobody has reaped yet has."""
    listed = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], check=False, capture_output=True, text=True)
    return listed.stdout.strip()[:1] not in {"", "Z"}


@cache
def unprivileged() -> Mapping[str, Any]:
    """Return as whom a server runs: root may not run most, so there it is a user without rights."""
    if os.geteuid() != 0:
        return {}
    for name in _USERS:
        with suppress(KeyError):
            user = pwd.getpwnam(name)
            return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": ()}
    raise MissingPartError(f"root may not run PostgreSQL, and there is none of the users {', '.join(_USERS)}")


def give_away(path: Path) -> None:
    """Let the server's user own a file or a folder and all that is in it."""
    who = unprivileged()
    if who:
        for each in (path, *path.rglob("*")):
            os.chown(each, who["user"], who["group"], follow_symlinks=False)


def within_reach(tree: Path, folder: Path) -> Path:
    """Return the tree itself, or a copy in a server's folder where the server's user cannot reach it."""
    if not unprivileged() or all(parent.stat().st_mode & 0o001 for parent in tree.resolve().parents):
        return tree
    for each in (tree, tree.with_name(f"{tree.name}.libs")):  # where a Python package keeps its libraries
        copied = folder / each.name
        if each.exists() and not copied.exists():
            shutil.copytree(each, copied, symlinks=True)
            give_away(copied)
    return folder / tree.name
