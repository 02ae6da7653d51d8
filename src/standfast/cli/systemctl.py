"""What is asked of systemd, by its own command."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping

from standfast.errors import ConfigurationError, StandfastError

ELSEWHERE = (
    "add --print to see the unit, for another machine; docs/howto/run-as-a-service.md says what to do elsewhere"
)


def version_of_systemd() -> int | None:
    """Return the version of the systemd that is installed here; None where that is not known."""
    found = shutil.which("systemctl")
    if found is None:
        return None
    try:
        asked = subprocess.run([found, "--version"], capture_output=True, text=True, check=False, timeout=10)  # noqa: S603 - a fixed command
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = re.match(r"systemd (\d+)", asked.stdout)
    return None if said is None else int(said[1])


class Systemctl:
    """The manager of the machine's services, or of those of the user."""

    def __init__(self, *, system: bool) -> None:
        found = shutil.which("systemctl")
        if found is None:
            raise ConfigurationError(f"systemd does not run this machine: it has no systemctl; {ELSEWHERE}")
        self._command = [found] if system else [found, "--user"]
        if self._run("is-system-running").stdout.strip() in ("", "offline"):
            raise ConfigurationError(f"systemd is installed, and does not run this machine; {ELSEWHERE}")

    def do(self, *words: str) -> None:
        """Have something done. Raises StandfastError with what systemctl says where it cannot be."""
        done = self._run(*words)
        if done.returncode != 0:
            raise StandfastError(
                f"`systemctl {' '.join(words)}` failed: {done.stderr.strip() or done.stdout.strip()}"
            )

    def show(self, name: str, *properties: str) -> Mapping[str, str]:
        """Return what systemd knows of a unit."""
        done = self._run("show", name, "--property", ",".join(properties))
        return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603 - a fixed command, and no shell
            [*self._command, *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env={**os.environ, "SYSTEMD_PAGER": "", "LC_ALL": "C"},
        )
