"""Runs all tests in two halves at once, for a machine has two cores: what waits for processes, and what computes.

The first half is shown as it runs, the second when both are over. With arguments it is one plain pytest.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
PYTEST = [sys.executable, "-m", "pytest"]
FIRST = [str(HERE / "acceptance")]
SECOND = [str(HERE / "unit"), str(HERE / "conformance")]


def main() -> int:
    """Run the tests; return the first exit code that is not 0."""
    if sys.argv[1:]:
        return subprocess.run([*PYTEST, *sys.argv[1:]], check=False).returncode
    with tempfile.TemporaryFile("w+") as told:
        second = subprocess.Popen([*PYTEST, *SECOND], stdout=told, stderr=subprocess.STDOUT)
        try:
            first = subprocess.run([*PYTEST, *FIRST], check=False)
            second.wait()
        finally:
            second.terminate()
            second.wait()
        told.seek(0)
        sys.stdout.write(told.read())
    return first.returncode or second.returncode


if __name__ == "__main__":
    sys.exit(main())
