"""Runs a page of the documentation as a reader would, in a folder of its own, from top to bottom.

    ```python title="jobs.py"     is saved under that name, and so is ```toml
    ```python                     is run
    ```console                    its `$ commands` are run; what they print must be what the page shows

A page shows real output, but times, spans, worker ids and pids differ each time and match any of their kind. The
job ids that a page shows stand for the real ones, in later commands too, /srv/shop for the folder, and the port of
metrics for a free one. `…` matches anything; where lines break does not matter. A worker's log has several
processes writing, each in its order: its lines may change places. Other blocks are for reading.
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from ready_python import BIN, ReadyPython, words_of

from servers.process import free_port

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = 100
PLUGINS = "-p no:schemathesis -p no:hypothesispytest -p no:anyio -p no:randomly -p no:valkey"
"""Plugins of pytest that a reader does not have, and that take longer to load than the tests of a page."""

FOLDER_SHOWN = "/srv/shop"
PORT_SHOWN = "9464"

_FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r'title="(?P<title>[^"]+)"')
_ALERTS = re.compile(r"^[\d:.]{8,} \S alert .*\n|^\{.*\"alert_(fired|resolved)\".*\n", re.MULTILINE)
"""Lines about alerts: on a slow machine an example lasts until somebody looks for trouble."""

_ID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_VARIABLE = (
    (re.compile(r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun) \d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?\b"), "WHEN"),
    (re.compile(r"\b(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d(\.\d{3})?\b"), "TIME"),
    (re.compile(r"\b\d+(\.\d+)? (ms|s|min|h|d)( \d+ (s|min|h))?\b"), "SPAN"),
    (re.compile(r"\bin SPAN\b|\bSPAN ago\b|\bnow\b"), "DISTANCE"),
    (re.compile(r"\b[0-9a-f]{16}\b"), "WORKER"),
    (re.compile(r"(?<![-\w])[0-9a-f]{8}(?![-\w])"), "JOB"),
    (re.compile(r"\bpid \d+\b"), "PID"),
    (re.compile(r"─+"), "─"),
    (re.compile(r"\s+"), " "),
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    title: str | None
    body: str
    line: int


def blocks_of(page):
    text = page.read_text()
    return [
        Block(
            language=fence["info"].split(" ")[0],
            title=title["title"] if (title := _TITLE.search(fence["info"])) else None,
            body=fence["body"],
            line=text[: fence.start()].count("\n") + 1,
        )
        for fence in _FENCE.finditer(text)
    ]


@dataclass
class Session:
    """One reader at one page."""

    folder: Path
    python: ReadyPython | None = None
    """What runs Python programs; without it each is a process from its start."""
    ids: dict[str, str] = field(default_factory=dict)
    """The ids that the page shows, with the real ones that they stand for."""
    port: str = field(default_factory=lambda: str(free_port()))

    def follow(self, block):
        if block.language == "console":
            self._console(block)
        elif block.language in {"python", "toml"} and block.title:
            (self.folder / block.title).write_text(block.body)
        elif block.language == "python":
            code, printed = self._run([sys.executable, "-c", block.body], ["python", "-c", block.body])
            assert code == 0, f"the example at line {block.line} fails:\n{printed}"

    def _console(self, block):
        for shown in re.split(r"^\$ ", block.body, flags=re.MULTILINE)[1:]:
            command, _, expected = shown.partition("\n")
            for ours, real in self.ids.items():
                command = command.replace(ours, real)
            command = command.replace(PORT_SHOWN, self.port)
            _, printed = self._run(["/bin/sh", "-c", command], words_of(command))
            printed = printed.replace(str(self.folder), FOLDER_SHOWN).replace(f":{self.port}", f":{PORT_SHOWN}")
            self._learn_ids(expected, printed)
            assert self._matches(expected, printed), (
                f"line {block.line}: $ {command}\nshould print\n{expected}\nand printed\n{printed}"
            )

    def _run(self, command, words):
        """Return the exit code of a command and what it prints. `words`: the same for a ready Python, if it can."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("STANDFAST", "PYTEST"))}
        path = f"{BIN}{os.pathsep}{kept['PATH']}"
        environment = {**kept, "PATH": path, "COLUMNS": str(COLUMNS), "PYTEST_ADDOPTS": PLUGINS}
        if self.python and words:
            return self.python.run(words, self.folder, environment)
        ended = subprocess.run(
            command,
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        return ended.returncode, ended.stdout

    def _learn_ids(self, expected, printed):
        real = [each for each in dict.fromkeys(_ID.findall(printed)) if each not in self.ids.values()]
        ours = [each for each in dict.fromkeys(_ID.findall(expected)) if each not in self.ids]
        for shown, meant in zip(ours, real, strict=False):
            self.ids[shown] = meant

    def _matches(self, expected, printed):
        if "alert" not in expected:
            printed = _ALERTS.sub("", printed)
        for shown, meant in self.ids.items():
            printed = printed.replace(meant, shown)
        shown, real = _plain(expected), _plain(printed)
        return _like(shown, real) or _same_lines(_logged(shown), _logged(real))


def _like(shown, real):
    pattern = ".*?".join(re.escape(part) for part in shown.split("…"))
    return re.fullmatch(pattern, real) is not None


def _logged(text):
    """Return the lines of a log: each begins with a time."""
    return [line.strip() for line in re.split(r"(?=\bTIME )", text) if line]


def _same_lines(shown, real):
    """Whether each line shown is there once, in whatever order, and no other is."""
    if len(shown) != len(real):
        return False
    left = list(real)
    for line in shown:
        found = next((one for one in left if _like(line, one)), None)
        if found is None:
            return False
        left.remove(found)
    return True


def _plain(text):
    for pattern, word in _VARIABLE:
        text = pattern.sub(word, text)
    return text.strip()
