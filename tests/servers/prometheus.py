"""A Prometheus server of the test's own, and promtool: from the path, or from Debian's package, fetched once."""

import fcntl
import json
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from .process import MissingPartError, Server, within_reach

KEPT = Path(sys.prefix) / "prometheus"
"""Where what was fetched stays: inside the virtual environment."""

FETCHED_WITHIN = 600


@cache
def program(name: str) -> Path:
    """Return where `prometheus` or `promtool` is."""
    if (found := shutil.which(name)) is not None:
        return Path(found)
    return bring(KEPT) / name / name


def bring(folder: Path) -> Path:
    """Fetch both into a folder, each in one of its own, unless they are there; of many processes one does."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "promtool" / "promtool").exists():
            with tempfile.TemporaryDirectory(dir=folder) as fetched:
                _fetch(Path(fetched))
                for name in ("prometheus", "promtool"):  # the last one says that all is there
                    (folder / name).mkdir(exist_ok=True)
                    (Path(fetched) / "usr" / "bin" / name).replace(folder / name / name)
    return folder


def _fetch(folder: Path) -> None:
    for command in (["apt-get", "download", "prometheus"], ["dpkg-deb", "-x", "prometheus.deb", "."]):
        try:
            told = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, check=False, timeout=FETCHED_WITHIN
            )
        except FileNotFoundError as error:
            raise MissingPartError(_missing(str(error))) from error
        if told.returncode:
            raise MissingPartError(_missing(f"{' '.join(command)} said:\n{told.stdout}{told.stderr}"))
        for package in folder.glob("prometheus_*.deb"):
            package.replace(folder / "prometheus.deb")


def _missing(why: str) -> str:
    return f"no prometheus and promtool on the path, and Debian's package cannot be had: {why}"


def promtool(*words: str, given: str = "") -> str:
    """Run promtool, which has to find nothing wrong; return what it says."""
    told = subprocess.run(
        [program("promtool"), *words], input=given, capture_output=True, text=True, check=False, timeout=60
    )
    assert told.returncode == 0, told.stdout + told.stderr
    return told.stdout + told.stderr


class Prometheus(Server):
    """A server that scrapes one target every second, and knows the rules."""

    kind = "prometheus"

    def __init__(self, target: str, rules: Path) -> None:
        self._target = target
        self._rules = rules
        super().__init__({})

    def _prepare(self) -> None:
        shutil.copy(self._rules, self.folder / "rules.yml")
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yml"],
            "scrape_configs": [{"job_name": "standfast", "static_configs": [{"targets": [self._target]}]}],
        }
        (self.folder / "prometheus.yml").write_text(json.dumps(config))  # which is YAML, too

    def _command(self) -> Sequence[str | Path]:
        tree = within_reach(program("prometheus").parent, self.folder)
        return [
            tree / "prometheus",
            f"--config.file={self.folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--log.level=warn",
        ]

    def _check(self) -> None:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=5) as answer:
            assert answer.status == 200

    def ask(self, path: str, **given: str) -> Any:
        """Ask the API and return the data of its answer."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(given)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            told = json.load(answer)
        assert told["status"] == "success", told
        return told["data"]

    def query(self, expression: str) -> Mapping[tuple[str, ...], float]:
        """Return the values of an instant query by the values of their labels, which go by name."""
        found = self.ask("query", query=expression)["result"]
        return {
            tuple(value for _, value in sorted(each["metric"].items())): float(each["value"][1]) for each in found
        }
