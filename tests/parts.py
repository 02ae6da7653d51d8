"""Runs all tests in five parts at once: most of them wait for processes, and a machine has more than one core.

What the first part says is shown as it runs, the others' words when all are over. With arguments it is one plain
pytest.
"""

import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

HERE = Path(__file__).parent
PYTEST = [sys.executable, "-m", "pytest"]


def parts() -> list[list[str]]:
    """Return what each part runs: four times every fourth file of the acceptance tests, and the rest."""
    files = sorted(map(str, (HERE / "acceptance").glob("test_*.py")))
    return [*(files[first::4] for first in range(4)), [str(HERE / "unit"), str(HERE / "conformance")]]


def main() -> int:
    """Run the tests; return the first exit code that is not 0."""
    if sys.argv[1:]:
        return subprocess.run([*PYTEST, *sys.argv[1:]], check=False).returncode
    first, *others = parts()
    with ExitStack() as opened:
        running = []
        for part in others:
            told = opened.enter_context(tempfile.TemporaryFile("w+"))
            process = subprocess.Popen([*PYTEST, *part], stdout=told, stderr=subprocess.STDOUT)
            opened.callback(process.wait)
            opened.callback(process.terminate)
            running.append((process, told))
        codes = [subprocess.run([*PYTEST, *first], check=False).returncode]
        for process, told in running:
            codes.append(process.wait())
            told.seek(0)
            sys.stdout.write(told.read())
    return next((code for code in codes if code), 0)


if __name__ == "__main__":
    sys.exit(main())
