"""What is told is what Prometheus reads, and the list of metrics is what the pages and the dashboards know."""

import json
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from standfast.observe.metrics.cells import CALL_ENDS
from standfast.observe.metrics.families import (
    ATTEMPTS,
    CALL_SECONDS,
    FAMILIES,
    STORE_UP,
    Sample,
    histogram,
    written,
)

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "howto" / "metrics.md").read_text()
SUFFIXES = re.compile(r"_(bucket|sum|count)$")


def test_the_official_parser_reads_back_what_is_written():
    odd = 'a\\b"c\nd'
    samples = [
        Sample(STORE_UP.name, (), 1),
        Sample(ATTEMPTS.name, ("q", odd, "dead"), 12345678901234567),
        *histogram(CALL_SECONDS, ("claim",), CALL_ENDS, [1, 2, *[0] * 10, 4], 7.25),
    ]
    read = {family.name: family for family in text_string_to_metric_families(written(samples))}
    assert {name: family.type for name, family in read.items()} == {
        "standfast_attempts": "counter",
        "standfast_store_call_seconds": "histogram",
        "standfast_store_up": "gauge",
    }
    assert read["standfast_attempts"].samples[0].labels == {"queue": "q", "task": odd, "outcome": "dead"}
    buckets = {sample.labels.get("le"): sample.value for sample in read["standfast_store_call_seconds"].samples}
    assert (buckets["0.0001"], buckets["0.0004"], buckets["+Inf"]) == (1, 3, 7)
    assert all(family.documentation == FAMILIES[_name(family)].help for family in read.values())


def _name(family):
    return f"{family.name}_total" if family.type == "counter" else family.name


def test_the_page_has_every_metric_with_its_labels_and_meaning():
    """The table is the list."""
    rows = [row.strip("| ").split(" | ") for row in PAGE.splitlines() if row.startswith("| `standfast_")]
    declared = [
        [f"`{one.name}`", one.type, ", ".join(f"`{label}`" for label in one.labels) or "–", one.help]
        for one in FAMILIES.values()
    ]
    assert rows == declared


@pytest.mark.parametrize("file", ["grafana/standfast.json", "prometheus/standfast.rules.yml"])
def test_what_is_deployed_asks_for_metrics_that_there_are(file):
    asked = {
        SUFFIXES.sub("", name) for name in re.findall(r"\bstandfast_\w+", (ROOT / "deploy" / file).read_text())
    }
    assert asked <= FAMILIES.keys()
    assert len(asked) > 5


def test_the_dashboard_shows_every_metric_but_the_release():
    board = json.loads((ROOT / "deploy/grafana/standfast.json").read_text())
    asked = " ".join(target["expr"] for panel in board["panels"] for target in panel.get("targets", ()))
    assert [name for name in FAMILIES if name not in asked] == ["standfast_store_look_seconds"]
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
