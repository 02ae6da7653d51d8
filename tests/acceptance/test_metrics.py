"""Metrics are what happened: they add up to what the store says, for those who may ask, and stay few."""

import os
import re
import signal
import time
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from foreign_net import ask, foreign_machine
from prometheus_client.parser import text_string_to_metric_families
from shopfloor import PROVE, Shop, eventually

from servers.prometheus import Prometheus, promtool

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = DEPLOY / "prometheus" / "standfast.rules.yml"
TOKEN = "a-token-that-nobody-guesses"
PACE = 0.12
"""Seconds between two scrapes: each peer may ask ten times a second."""
MOST_LINES = 12_000
"""Of a scrape, however many tasks, queues and tags there are."""


class Scraped:
    """Samples by name and labels, as the official parser reads them."""

    def __init__(self, text):
        self.text = text
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self.samples = {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    def sum(self, name, **labels):
        wanted = set(labels.items())
        return sum(
            value for (found, *given), value in self.samples.items() if found == name and wanted <= set(given)
        )

    @cached_property
    def counters(self):
        """What must never become less."""
        grows = {name for name, family in self.families.items() if family.type in {"counter", "histogram"}}
        named = {f"{name}{end}" for name in grows for end in ("_total", "_bucket", "_sum", "_count")}
        return {key: value for key, value in self.samples.items() if key[0] in named}


class Target:
    """A worker's endpoint; whoever scrapes it sees that no counter goes back."""

    def __init__(self, worker):
        found = eventually(lambda: re.search(r"told at http://\S+:(\d+)/metrics", worker.words), "it serves")
        self.port = int(found[1])
        self._before = {}

    def scrape(self):
        time.sleep(PACE)
        status, headers, body = ask("127.0.0.1", self.port, "/metrics")
        assert (status, headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
        seen = Scraped(body.decode())
        less = {key: value for key, value in self._before.items() if seen.counters.get(key, -1) < value}
        assert less == {}
        self._before = seen.counters
        return seen

    def becomes(self, told, **labels):
        """Wait until the attempts that ended are so many, and return the scrape."""
        return self.until(told, "standfast_attempts_total", **labels)

    def until(self, told, name, **labels):
        """Wait until the sum of samples is so much, and return the scrape."""

        def found():
            seen = self.scrape()
            return seen if seen.sum(name, **labels) == told else None

        return eventually(found, f"{told} {name} {labels}")


@contextmanager
def served(folder, *options, source="shop_app.py", address="127.0.0.1:0", **env):
    with Shop(folder, source) as shop:
        worker = shop.worker("--processes", "2", "--metrics", address, *options, **env)
        yield shop, worker, Target(worker)
        assert worker.stop() == 0, worker.words


def test_counters_add_up_to_what_the_store_says_whoever_dies(tmp_path):
    """Children are killed and replaced: nothing is lost or counted twice, and promtool has no complaint."""
    with served(tmp_path) as (shop, worker, target):
        for order in range(60):
            shop.tasks.pack.enqueue(order=order)
        for error in ("retried", "discarded", "other") * 4:
            shop.tasks.sort_out.enqueue(error=error)
        target.becomes(60, outcome="completed")
        target.becomes(8, outcome="dead")
        doomed = shop.tasks.guard.options(max_attempts=1).enqueue(until="never")
        shop.become(doomed, "running")
        eventually(lambda: shop.ledger(doomed), "it runs")
        for child in worker.children:
            os.kill(child, signal.SIGKILL)
        target.becomes(9, outcome="dead")
        target.until(2, "standfast_worker_events_total", event="crashed")
        worker.process.send_signal(signal.SIGHUP)
        target.until(2, "standfast_worker_events_total", event="stopped")
        for order in range(40):
            shop.tasks.weigh.enqueue(order=order)
        seen = target.becomes(100, outcome="completed")

        states = shop.counts()
        for state in ("completed", "dead", "cancelled"):
            assert seen.sum("standfast_attempts_total", outcome=state) == states[state], state
        assert seen.sum("standfast_attempts_total", outcome="retried") == 8
        assert (
            seen.sum("standfast_job_run_seconds_count") == 60 + 20 + 40
        )  # but not the one that died with its child
        assert seen.sum("standfast_job_start_lag_seconds_count") == 120
        assert seen.sum("standfast_job_run_seconds_bucket", le="+Inf") == 120
        assert seen.sum("standfast_store_call_seconds_count", verb="finish") > 0
        seen = target.until(100, "standfast_jobs", state="completed")
        assert seen.sum("standfast_store_up") == 1
        assert promtool("check", "metrics", given=seen.text) == ""


def test_a_prometheus_server_says_what_the_store_says(tmp_path):
    """It scrapes while jobs run, for a minute at full size, and knows the rules that come along."""
    seconds = 60 if PROVE else 4
    with served(tmp_path) as (shop, _, target), Prometheus(f"127.0.0.1:{target.port}", RULES) as prometheus:
        ends_at, order = time.monotonic() + seconds, 0
        while time.monotonic() < ends_at:
            shop.tasks.pack.enqueue(order=order)
            shop.tasks.sort_out.enqueue(error="discarded")
            order += 1
            time.sleep(0.02)
        eventually(lambda: set(shop.counts()) == {"completed", "cancelled"}, "all is done")
        ended = {("cancelled",): order, ("completed",): order}
        assert shop.counts() == {"cancelled": order, "completed": order}
        by_outcome = 'sum by (outcome) (standfast_attempts_total{outcome=~"completed|cancelled"})'
        eventually(lambda: prometheus.query(by_outcome) == ended, "the counters are scraped", within=20)
        eventually(
            lambda: prometheus.query("sum by (state) (standfast_jobs)") == ended, "the gauges too", within=20
        )
        assert prometheus.query("sum(standfast_job_run_seconds_count)") == {(): 2 * order}
        assert prometheus.query("min_over_time(up[1m])").values() != {0.0}
        groups = prometheus.ask("rules")["groups"]
        assert {rule["health"] for group in groups for rule in group["rules"]} <= {"ok", "unknown"}
        assert [rule["name"] for group in groups for rule in group["rules"] if rule.get("state") == "firing"] == []


def test_ten_thousand_tasks_do_not_make_ten_thousand_series(tmp_path):
    """Some are told by name, the rest as one: the sum is right, and the scrape has a size of its own."""
    tasks = 10_000 if PROVE else 1_500
    os.environ["TASKS"] = str(tasks)
    try:
        with served(tmp_path, source="metrics_app.py", TASKS=str(tasks)) as (shop, _, target):
            for first in range(0, tasks, 100):
                shop.tasks.spread.enqueue(first, first + 100)
            spreads = tasks // 100
            seen = target.becomes(tasks + spreads, outcome="completed")
            assert seen.sum("standfast_jobs_enqueued_total") == tasks
            assert seen.text.count("\n") < MOST_LINES
            assert seen.sum("standfast_attempts_total", outcome="completed", task="_other_") >= tasks - 2 * 200
            assert "tag-" not in seen.text
            target.until(tasks + spreads, "standfast_jobs", state="completed")
    finally:
        del os.environ["TASKS"]


def test_only_those_who_may_ask_are_answered(tmp_path):
    """Guarded as health is: with a token nobody is told anything without it, foreign or not."""
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    right = {"Authorization": f"Bearer {TOKEN}"}
    guarded = served(tmp_path / "shop", "--metrics-token-file", str(token), address="0.0.0.0:0")
    with guarded as (_, worker, target), foreign_machine() as foreign:
        assert foreign.ask(target.port, "/metrics")[0] == 401
        assert (
            foreign.ask(target.port, "/metrics", headers={"Authorization": "Bearer not-the-token-at-all"})[0] == 401
        )
        assert ask("127.0.0.1", target.port, "/metrics", headers={"X-Forwarded-For": "127.0.0.1"})[0] == 401
        status, _, body = foreign.ask(target.port, "/metrics", headers=right)
        assert status == 200
        assert b"standfast_build_info" in body
        assert foreign.ask(target.port, "/healthz", headers=right)[0] == 404
        assert foreign.ask(target.port, "/metrics", method="DELETE", headers=right)[0] == 405
        assert TOKEN not in worker.words


def test_this_machine_alone_is_answered_where_nothing_is_said(tmp_path):
    with served(tmp_path, "--metrics-allow", "127.0.0.1", address="0.0.0.0:0") as (_, _, target):
        with foreign_machine() as foreign:
            assert foreign.ask(target.port, "/metrics")[0] == 403
        assert target.scrape().sum("standfast_worker_events_total", event="ready") >= 1


def test_promtool_takes_the_rules_and_the_configuration():
    """What deploy/ has for Prometheus is well formed, and its alerts go off when they should."""
    assert "SUCCESS" in promtool("check", "rules", str(RULES))
    assert "SUCCESS" in promtool("check", "config", str(DEPLOY / "prometheus" / "prometheus.yml"))
    assert "SUCCESS" in promtool("test", "rules", str(Path(__file__).with_name("standfast.rules.test.yml")))
