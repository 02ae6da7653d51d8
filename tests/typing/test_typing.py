"""The public face is typed: mypy --strict accepts each right call in api.py and refuses each wrong one."""

import re
import subprocess
import sys
from pathlib import Path

API = Path(__file__).with_name("api.py")
REPORT = re.compile(r"api\.py:(\d+): error: .*\[([a-z-]+)\]$", re.MULTILINE)
EXPECTED = re.compile(r"# error: ([a-z-]+)$")


def test_mypy_reports_the_wrong_calls_and_nothing_else(tmp_path):
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), "--no-error-summary", str(API)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.stderr == ""
    expected = {
        (number, found[1])
        for number, line in enumerate(API.read_text().splitlines(), start=1)
        if (found := EXPECTED.search(line))
    }
    assert {(int(line), code) for line, code in REPORT.findall(checked.stdout)} == expected, checked.stdout
