"""Runs all tests in parts, several at once: most of them wait for processes, and a machine has more than one core.

The first part is `make lint`. What a part says is shown when it is over. Parts of tests are about equally long, so
that all who run them end at about the same time. With arguments it is `make lint` and one plain pytest.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

AT_ONCE = 8
PARTS = {"conformance": 1, "unit": 5, "acceptance": 13}
"""How many parts each folder is divided into."""

HERE = Path(__file__).parent

LONG = {
    "acceptance/test_dashboard_browser.py": 70,
    "unit/stores/postgres": 65,
    "conformance": 60,
    "acceptance/test_docs.py": 130,
    "acceptance/test_isolation.py": 50,
    "unit/worker": 140,
    "acceptance/test_outages.py": 40,
    "unit/stores/postgres/joined": 35,
    "acceptance/test_bench.py": 40,
    "acceptance/test_alerts_arrive.py": 60,
    "acceptance/test_one_fire.py": 30,
    "acceptance/test_game.py": 25,
    "acceptance/test_simulator.py": 25,
    "acceptance/test_host_servers.py": 25,
    "acceptance/test_host_matrix.py": 20,
    "acceptance/test_long_locks.py": 20,
    "acceptance/test_long_views.py": 20,
    "unit/cli": 20,
    "unit/stores/redis": 20,
    "unit/stores/sqlite": 20,
    "acceptance/test_kill_storm.py": 15,
    "acceptance/test_tracing.py": 15,
    "acceptance/test_long_checkpoints.py": 15,
    "acceptance/test_long_steps.py": 15,
    "acceptance/test_long_waits.py": 15,
    "acceptance/test_lost_reply.py": 15,
    "acceptance/test_recycling.py": 15,
    "acceptance/test_metrics.py": 25,
    "acceptance/test_windows_of_a_fleet.py": 15,
    "acceptance/test_dashboard_attacks.py": 15,
    "acceptance/test_dashboard_schema.py": 15,
    "acceptance/test_dashboard_attacks_texts.py": 12,
    "acceptance/test_dashboard_attacks_writes.py": 12,
    "acceptance/test_health.py": 12,
    "acceptance/test_logs.py": 12,
    "acceptance/test_signals.py": 12,
    "acceptance/test_worker_start_errors.py": 12,
    "acceptance/test_check.py": 10,
    "acceptance/test_deaths.py": 10,
    "acceptance/test_service.py": 10,
}
"""About how many seconds each takes, of a core or, where it waits for longer, by the clock."""

BRIEF = 6
"""And each of all others."""

PYTEST = [sys.executable, "-m", "pytest"]
TELL_SLOW = ["--durations=5", "--durations-min=10"]
LINT = ["make", "--no-print-directory", "lint"]


def pieces(of: str) -> dict[str, list[Path]]:
    """Return what is never divided: a file of acceptance tests, or the tests of a folder but not of those in it."""
    found: dict[str, list[Path]] = {}
    for file in sorted((HERE / of).rglob("test_*.py")):
        place = file if of == "acceptance" else file.parent
        found.setdefault(str(place.relative_to(HERE)), []).append(file)
    return found


def parts() -> list[list[str]]:
    """Return what each part runs, the longest first."""
    assert {file.relative_to(HERE).parts[0] for file in HERE.rglob("test_*.py")} == PARTS.keys(), "none is left out"
    filled: list[tuple[int, list[str]]] = []
    for folder, number in PARTS.items():
        made: list[tuple[int, list[str]]] = [(0, [])] * number
        whole = pieces(folder)
        for name in sorted(whole, key=lambda name: -LONG.get(name, BRIEF)):
            seconds, files = made.pop(0)
            made.append((seconds + LONG.get(name, BRIEF), [*files, *map(str, whole[name])]))
            made.sort(key=lambda part: part[0])
        filled += made
    return [files for _, files in sorted(filled, reverse=True)]


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run one part to its end."""
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def main() -> int:
    """Run the tests; return the first exit code that is not 0."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # each of a thousand processes would compile Standfast anew
    if sys.argv[1:]:
        linted = subprocess.run(LINT, check=False).returncode
        return linted or subprocess.run([*PYTEST, *sys.argv[1:]], check=False).returncode
    code = 0
    pool = ThreadPoolExecutor(AT_ONCE)
    commands = [LINT, *([*PYTEST, *TELL_SLOW, *part] for part in parts())]
    running = [pool.submit(run, command) for command in commands]
    try:
        for number, ended in enumerate(as_completed(running), start=1):
            sys.stdout.write(f"{ended.result().stdout}\n{number} of {len(running)} parts are over\n\n")
            sys.stdout.flush()
            code = code or ended.result().returncode
    finally:
        pool.shutdown(cancel_futures=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
