"""A Python that has imported Standfast, and forks for each program that it is asked to run.

To import it takes longer than most examples of the documentation run. Everything else is as in a process of its
own: arguments, folder, environment, output, the end of the interpreter and the exit code.
"""

import json
import os
import random
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT
from types import ModuleType

SHELL = frozenset("|&;<>$`\\*?~()#=")
"""A command with one of these is for a shell."""

BIN = Path(sys.executable).parent


def words_of(command: str) -> list[str] | None:
    """Return the words of a command that a ready Python can run, or None for any other."""
    words = None if SHELL & set(command) else shlex.split(command)
    return words if words and words[0] in {"standfast", "python"} and words[1:2] != ["-m"] else None


class ReadyPython:
    """Runs programs, one after the other."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, __file__, str(theirs.fileno())]
            self._process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], stdin=DEVNULL, stdout=PIPE, stderr=STDOUT
            )

    def run(self, words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> tuple[int, str]:
        """Return the exit code and all that was printed."""
        asked = json.dumps([list(words), str(folder), dict(environment)]).encode()
        read, write = os.pipe()
        with os.fdopen(read) as printed:
            socket.send_fds(self._ours, [len(asked).to_bytes(8)], [write])
            os.close(write)
            self._ours.sendall(asked)
            text = printed.read()
        return int.from_bytes(self._ours.recv(2), signed=True), text

    def close(self) -> None:
        self._ours.close()
        assert self._process.communicate(timeout=60) == (b"", None)


def serve(ours: socket.socket) -> tuple[list[str], str, dict[str, str]] | None:
    """Fork for each program; return it in the child, and None at the end."""
    while True:
        size, fds, _, _ = socket.recv_fds(ours, 8, 1)
        if not size:
            return None
        asked = ours.recv(int.from_bytes(size), socket.MSG_WAITALL)
        if not (pid := os.fork()):
            for number in (1, 2):
                os.dup2(fds[0], number)
            os.close(fds[0])
            ours.close()
            words, folder, environment = json.loads(asked)
            return words, folder, environment
        os.close(fds[0])
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        ours.sendall(code.to_bytes(2, signed=True))


def become(words: list[str], folder: str, environment: dict[str, str]) -> None:
    """Do what the program does that these words start."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    random.seed()
    program, *rest = words
    if program == "standfast":
        sys.argv, sys.path[0] = [str(BIN / "standfast"), *rest], str(BIN)
        sys.exit(main())
    module = sys.modules["__main__"] = ModuleType("__main__")
    if rest[0] == "-c":
        sys.argv, sys.path[0] = ["-c", *rest[2:]], ""
        code = compile(rest[1], "<string>", "exec")
    else:
        sys.argv, sys.path[0] = rest, str(Path(rest[0]).parent.resolve())
        module.__file__ = rest[0]
        code = compile(Path(rest[0]).read_text(), rest[0], "exec")
    exec(code, vars(module))


if __name__ == "__main__":
    import click

    import standfast.hosts.loader
    import standfast.stores.sqlite.store
    import standfast.supervisor.main
    import standfast.testing  # noqa: F401 - for those who come
    from standfast.cli.main import cli, main

    for name in cli.list_commands(click.Context(cli)):
        cli.get_command(click.Context(cli), name)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with socket.socket(fileno=int(sys.argv[1])) as ours:
        wanted = serve(ours)
    if wanted is not None:
        become(*wanted)
