"""The benchmark runs, and says what it measured."""

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "bench"


def test_the_bench_measures_every_contender_and_leaves_nothing_behind(tmp_path):
    """Small here, so its figures mean nothing; each aim has its measured figure beside it."""
    options = ["--jobs", "400", "--rounds", "1", "--pickups", "5", "--idle", "0.5", "--json"]
    ended = subprocess.run(
        [sys.executable, str(BENCH), *options], cwd=tmp_path, check=True, capture_output=True, text=True
    )

    report = json.loads(ended.stdout)
    contenders = {(rate["discipline"], rate["contender"]) for rate in report["rates"]}
    assert {name for discipline, name in contenders if discipline == "drain"} >= {"floor", "holdfast", "huey"}
    assert {name for discipline, name in contenders if discipline == "enqueue_many"} == {"floor", "holdfast"}
    assert all(0 < rate["lowest"] <= rate["median"] <= rate["highest"] for rate in report["rates"])
    assert [(ratio["discipline"], ratio["beside"]) for ratio in report["ratios"]] == [
        ("enqueue one by one", "floor"),
        ("enqueue_many", "floor"),
        ("drain", "floor"),
        ("drain", "huey"),
    ]
    assert 0 < report["pickup_ms_holdfast"]["p50"] <= report["pickup_ms_holdfast"]["p99"]
    assert report["idle_percent_of_a_core"] >= 0
    assert report["import_ms"] > 0
    assert list(tmp_path.iterdir()) == []
