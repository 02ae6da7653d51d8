"""Runs all tests in parts, several at once: most of them wait for processes, and a machine has more than one core.

What a part says is shown when it is over. The long parts come first and the others are short, so that all who run
them end at about the same time. With arguments it is one plain pytest.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

AT_ONCE = 5
SHORT_PARTS = 14
HERE = Path(__file__).parent
UNIT = HERE / "unit"
POSTGRES = UNIT / "postgres"
"""As long as all other unit tests together."""

PYTEST = [sys.executable, "-m", "pytest"]
TELL_SLOW = ["--durations=5", "--durations-min=10"]


def parts() -> list[list[str]]:
    """Return what each part runs: unit tests, conformance tests, and then so manieth files of acceptance tests."""
    files = sorted(map(str, (HERE / "acceptance").glob("test_*.py")))
    long = [[str(POSTGRES)], [str(UNIT), f"--ignore={POSTGRES}"], [str(HERE / "conformance")]]
    return [*long, *(files[n::SHORT_PARTS] for n in range(SHORT_PARTS))]


def run(part: list[str]) -> subprocess.CompletedProcess[str]:
    """Run one part to its end."""
    command = [*PYTEST, *TELL_SLOW, *part]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def main() -> int:
    """Run the tests; return the first exit code that is not 0."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # each of a thousand processes would compile Holdfast anew
    if sys.argv[1:]:
        return subprocess.run([*PYTEST, *sys.argv[1:]], check=False).returncode
    code = 0
    pool = ThreadPoolExecutor(AT_ONCE)
    running = [pool.submit(run, part) for part in parts()]
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
