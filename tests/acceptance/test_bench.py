"""The benchmark runs, and says what it measured."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from fleet import sizes

BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("sqlite", *sizes(short=("--no-peers",), full=())), id="file"),
        pytest.param(("postgres", "redis", "--no-peers"), id="servers", marks=pytest.mark.full_size),
    ],
)
def test_the_bench_measures_every_contender_and_leaves_nothing_behind(quick_path, words):
    """Small here, so its figures mean nothing; each aim has its measured figure beside it."""
    options = ["--jobs", "100", "--rounds", "1", "--latencies", "5", "--idle", "1", "--json"]
    ended = subprocess.run(
        [sys.executable, str(BENCH), *words, *options], cwd=quick_path, check=True, capture_output=True, text=True
    )

    report = json.loads(ended.stdout)
    for store in report["stores"]:
        drained = {figure["contender"] for figure in store["figures"] if figure["discipline"] == "drain, 1 worker"}
        assert drained >= {"floor", "standfast"}
        assert all(0 < figure["median"] <= figure["highest"] for figure in store["figures"])
        assert {"enqueue one by one", "enqueue in bulk", "drain, 1 worker"} <= {
            ratio["discipline"] for ratio in store["ratios"]
        }
        assert all(ratio["ratio"] > 0 for ratio in store["ratios"])
        assert store["idle_percent_of_a_core"] >= 0
    assert [store["store"] for store in report["stores"]] == [word for word in words if not word.startswith("--")]
    assert report["import_ms"] > 0
    assert list(quick_path.iterdir()) == []


def test_the_bench_of_checkpoints_compares_two_loops(quick_path):
    """Small here too: that both loops ran is all that its figures say."""
    words = [str(BENCH / "checkpoints.py"), "sqlite", "--items", "50", "--rounds", "1", "--json"]
    ended = subprocess.run([sys.executable, *words], cwd=quick_path, check=True, capture_output=True, text=True)
    figures = json.loads(ended.stdout)["sqlite"]
    assert figures["ratio"] == pytest.approx(figures["resumed"] / figures["bare"])
    assert figures["bare"] >= 50 * 0.001
    assert list(quick_path.iterdir()) == []


@pytest.mark.full_size
def test_the_bench_of_hosts_compares_requests_beside_jobs(quick_path):
    """Small here too: that requests were answered in each way, and jobs ran beside them, is all that it shows."""
    words = [str(BENCH), "host", "--requests", "10", "--rounds", "1", "--json"]
    ended = subprocess.run([sys.executable, *words], cwd=quick_path, check=True, capture_output=True, text=True)
    figures = json.loads(ended.stdout)
    for mode in ("gated", "gated, long turns", "ungated"):
        assert figures["ratios"][mode] == pytest.approx(figures[mode]["p95_ms"] / figures["idle"]["p95_ms"])
        assert figures[mode]["jobs_per_second"] > 0
    assert figures["idle"]["jobs_per_second"] == 0
    assert list(quick_path.iterdir()) == []


def test_the_bench_of_the_dashboard_asks_for_pages_and_watches(quick_path):
    """Small here too: that pages were answered, and watched while a worker drains, is all that it shows."""
    sizes = ["--jobs", "60", "--dead", "12", "--left", "10", "--rounds", "1", "--viewers", "1", "--seconds", "1"]
    pages = ["/", "/jobs", "/api/v1/dead"]
    words = [str(BENCH), "eyes", "sqlite", *sizes, *(f"--page={page}" for page in pages), "--json"]
    ended = subprocess.run([sys.executable, *words], cwd=quick_path, check=True, capture_output=True, text=True)
    report = json.loads(ended.stdout)["sqlite"]
    assert [page["path"] for page in report["pages"]] == pages
    assert all(0 < page["median"] <= page["highest"] and page["size"] > 0 for page in report["pages"])
    seen = report["viewers"]
    assert seen["worker_calls"] > 0
    assert seen["added_time_percent"] == pytest.approx(100 * seen["viewers_busy"] / seen["worker_busy"])
    assert list(quick_path.iterdir()) == []


@pytest.mark.full_size
def test_the_bench_of_tracing_compares_three_ways(quick_path):
    """Small here too: that jobs ran without spans, with unwanted ones and with exported ones is all it shows."""
    words = [str(BENCH), "tracing", "sqlite", "--jobs", "50", "--rounds", "1", "--json"]
    ended = subprocess.run([sys.executable, *words], cwd=quick_path, check=True, capture_output=True, text=True)
    report = json.loads(ended.stdout)
    for name, rates in report["jobs_per_second"].items():
        assert all(rate > 0 for rate in rates.values())
        for mode in ("unsampled", "exported"):
            assert report["ratios"][name][mode] == pytest.approx(rates[mode] / rates["off"])
    assert list(quick_path.iterdir()) == []


@pytest.mark.parametrize("store", ["sqlite", *sizes(short=[], full=["postgres", "redis"])])
def test_the_bench_of_watching_compares_drains(quick_path, store):
    """Small here too, but for what the kernel's clock can see: all was drained, metrics were asked for."""
    options = ["--jobs", "3000", "--turns", "2", "--rounds", "1", "--scrape", "0.1", "--json"]
    ended = subprocess.run(
        [sys.executable, str(BENCH), "watch", store, *options],
        cwd=quick_path,
        check=True,
        capture_output=True,
        text=True,
    )
    report = json.loads(ended.stdout)[store]
    assert report["ratio"] == pytest.approx(report["watched_us_per_job"] / report["plain_us_per_job"])
    assert report["ratio_from"] <= report["ratio"] <= report["ratio_to"]
    assert report["scraped"] > 0
    assert list(quick_path.iterdir()) == []
