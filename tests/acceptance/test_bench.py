"""The benchmarks run, and say what they measured."""

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "bench" / "sqlite_drain.py"


def test_the_sqlite_bench_measures_both_steps_and_leaves_nothing_behind(tmp_path):
    """Small here, so its figures mean nothing; each row has both contenders and their ratio."""
    ended = subprocess.run(
        [sys.executable, str(BENCH), "--jobs", "1000", "--rounds", "1", "--json"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )

    rows = json.loads(ended.stdout)
    assert [(row["step"], row["batch"]) for row in rows] == [
        ("insert", 500),
        ("claim + finish", 500),
        ("insert", 1),
        ("claim + finish", 1),
    ]
    assert all(row["ratio"] == row["holdfast"] / row["bare"] > 0 for row in rows)
    assert list(tmp_path.iterdir()) == []
