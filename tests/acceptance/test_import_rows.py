"""The example import, as a reader would start it: its worker is killed, and every row arrives."""

import re
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "import_rows.py"


def test_the_example_import_survives_a_kill(tmp_path):
    """All rows are there; of those that were imported twice there are a hundred at most, and it says so."""
    told = subprocess.run(
        [sys.executable, str(EXAMPLE), "--rows", "4000"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    ).stdout

    assert "another worker goes on" in told
    [(again, left)] = re.findall(r"4,000 rows are imported, (\d+) of them twice; .* ([\d,]+) left", told)
    assert int(again) <= 100
    assert 0 < int(left.replace(",", "")) < 4_000
    assert list(tmp_path.iterdir()) == []
