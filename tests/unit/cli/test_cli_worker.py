"""`worker`: what is asked for reaches the supervisor, and nonsense does not."""

import sys
from types import ModuleType

import pytest
from cli_world import assert_refused, bare

from standfast.observe.logs.levels import LogOptions
from standfast.worker.options import MetricsOptions, ServedQueues


@pytest.fixture
def supervised(monkeypatch):
    """Stand in for the supervisor and remember what it was asked for."""
    asked = []
    module = ModuleType("standfast.supervisor.main")
    module.supervise = lambda options: asked.append(options) or 7
    monkeypatch.setitem(sys.modules, "standfast.supervisor.main", module)
    return asked


def test_what_is_not_said_is_left_to_the_app(supervised):
    assert bare("worker", "shop.jobs:app").exit_code == 7
    (options,) = supervised
    assert (options.target, options.drain, options.processes, options.app_dir) == ("shop.jobs:app", False, 1, ".")
    assert options.concurrency is options.queues is options.grace is options.lease is options.url is None
    assert options.logs == LogOptions("info", "human", quiet=False)


def test_what_is_said_is_handed_over(supervised, tmp_path):
    command = "worker shop.jobs:make.app --drain --concurrency 50 --processes 4 --queues critical,mail"
    command += f" --grace 0 --lease 2.5 --app-dir {tmp_path} --url sqlite:///x.db --quiet"
    bare(*command.split())
    (options,) = supervised
    assert options.target == "shop.jobs:make.app"
    assert options.drain is True
    assert (options.concurrency, options.processes, options.queues) == (
        50,
        4,
        ServedQueues(("critical", "mail"), (1, 1)),
    )
    assert (options.grace, options.lease) == (0.0, 2.5)
    assert (options.app_dir, options.url, options.logs.quiet) == (str(tmp_path), "sqlite:///x.db", True)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "--url is empty"),
        ("postgressql://u:secret@h/d", "url (from --url): no store has the URL scheme 'postgressql'; did you mean"),
        ("redis://:secret@h/x", "url (from --url): a Redis database is a number"),
    ],
)
def test_a_url_that_means_no_store_is_blamed_on_its_option(supervised, url, words):
    """Not on the variable by which the children are told of it."""
    result = bare("worker", "shop:app", "--url", url)
    assert_refused(result, 2, words)
    assert "secret" not in result.stderr
    assert supervised == []


def test_a_url_whose_driver_is_missing_is_blamed_on_its_option(supervised, monkeypatch):
    """It says what to install."""
    monkeypatch.setattr("standfast.stores.url.find_spec", lambda _: None)
    result = bare("worker", "shop:app", "--url", "redis://:secret@h/0")
    assert_refused(result, 2, "url (from --url): this store needs redis, which is not installed")
    assert supervised == []


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (("--queues", "critical=6, mail=3 ,reports"), ServedQueues(("critical", "mail", "reports"), (6, 3, 1))),
        (("--queues", "mail"), ServedQueues(("mail",), (1,))),
        (("--queues", "critical,mail", "--strict"), ServedQueues(("critical", "mail"))),
    ],
)
def test_queues_have_weights_or_an_order(supervised, said, meant):
    """A name without a weight has 1; strictly means in the order given."""
    bare("worker", "shop:app", *said)
    assert [options.queues for options in supervised] == [meant]


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (("--log-level", "warning"), LogOptions("warning")),
        (("--verbose",), LogOptions("debug")),
        (("-v", "--log-format", "json"), LogOptions("debug", "json")),
        (("--log-format", "json", "-q"), LogOptions("info", "json", quiet=True)),
    ],
)
def test_the_log_is_as_it_was_asked_for(supervised, said, meant):
    bare("worker", "shop:app", *said)
    assert [options.logs for options in supervised] == [meant]


@pytest.mark.parametrize("target", ["shop", "shop.jobs", ":app", "shop:", "shop/jobs.py:app", "a:b:c", "a b:c", ""])
def test_a_malformed_target_is_refused_with_an_example(supervised, target):
    assert_refused(bare("worker", target), 2, "`standfast worker myproject.jobs:app`")
    assert supervised == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--queues", "critical=6,mail=x"), "the weight of 'mail' must be a whole number from 1 to 999999"),
        (("--queues", "critical=0"), "the weight of 'critical'"),
        (("--queues", "critical=-1"), "the weight of 'critical'"),
        (("--queues", "critical=1.5"), "the weight of 'critical'"),
        (("--queues", "critical="), "the weight of 'critical'"),
        (("--queues", "critical=6=7"), "the weight of 'critical'"),
        (("--queues", "=6"), "empty name"),
        (("--queues", "a b"), "queue must be 1 to 64 letters, digits, '_', '.' or '-', not 'a b'"),
        (("--queues", "mail,reports;=2"), "not 'reports;'"),
        (("--queues", "a" * 65), "1 to 64 letters"),
        (("--queues", "a,b,a"), "names 'a' twice"),
        (("--strict",), "--strict is about --queues, and none are named"),
        (("--strict", "--queues", "a=1,b"), "--strict serves queues in the order given, and weights"),
        (("--queues", "a,,b"), "empty name"),
        (("--queues", ""), "empty name"),
        (("--concurrency", "0"), "--concurrency"),
        (("--processes", "-1"), "--processes"),
        (("--grace", "-1"), "--grace"),
        (("--grace", "nan"), "'--grace': nan: must be from 0 seconds to a year"),
        (("--grace", "inf"), "'--grace': inf: must be from 0 seconds to a year"),
        (("--lease", "0"), "--lease"),
        (("--lease", "nan"), "'--lease': nan: must be above 0 seconds and at most a year"),
        (("--lease", "1e-7"), "'--lease': 1e-07: must be above 0 seconds and at most a year, and not less than a"),
        (("--log-level", "loud"), "--log-level"),
        (("--log-format", "xml"), "--log-format"),
        (("--app-dir", "nowhere"), "'nowhere' does not exist"),
    ],
)
def test_a_bad_option_is_refused_before_anything_starts(supervised, options, words):
    refused = bare("worker", "shop:app", *options)
    assert_refused(refused, 2, words)
    assert "(see `standfast worker --help`)" in refused.stderr
    assert supervised == []


@pytest.mark.parametrize(
    ("said", "served"),
    [
        ((), None),
        (("--metrics", "9464"), MetricsOptions("127.0.0.1", 9464)),
        (("--metrics", "localhost:0"), MetricsOptions("localhost", 0)),
        (("--metrics", "[::1]:9464"), MetricsOptions("::1", 9464)),
        (
            ("--metrics", "0.0.0.0:9464", "--metrics-allow", "10.0.0.0/8", "--metrics-allow", "::1"),
            MetricsOptions("0.0.0.0", 9464, None, ("10.0.0.0/8", "::1")),
        ),
        (
            ("--metrics", ":9464", "--metrics-token-file", "token"),
            MetricsOptions("127.0.0.1", 9464, "a-token-that-nobody-guesses"),
        ),
    ],
)
def test_where_metrics_are_served_and_to_whom(supervised, said, served, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "token").write_text("a-token-that-nobody-guesses\n")
    (tmp_path / "token").chmod(0o600)
    assert bare("worker", "shop.jobs:app", *said).exit_code == 7
    assert supervised[0].metrics == served


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            ("--metrics", "0.0.0.0:9464"),
            "reached from other machines: add --metrics-token-file, or --metrics-allow",
        ),
        (("--metrics", "70000"), "'70000' is no port, nor HOST:PORT; write e.g. 9090 or 0.0.0.0:9090"),
        (("--metrics", "here"), "'here' is no port"),
        (("--metrics", "9464", "--metrics-allow", "10.0.0.0/99"), "'10.0.0.0/99' is no network"),
        (("--metrics-allow", "10.0.0.0/8"), "are about --metrics: add e.g. `--metrics 9090`"),
        (("--metrics", "9464", "--metrics-token-file", "short"), "16 or more"),
        (
            ("--metrics", "9464", "--metrics-token-file", "open"),
            "others than its owner may read or change open: run",
        ),
        (("--metrics", "9464", "--metrics-token-file", "none"), "--metrics-token-file: none cannot be read"),
    ],
)
def test_metrics_that_would_be_open_or_mean_nothing_are_refused(supervised, said, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, mode in (("short", 0o600), ("open", 0o644)):
        (tmp_path / name).write_text("secret-7")
        (tmp_path / name).chmod(mode)
    result = bare("worker", "shop.jobs:app", *said)
    assert_refused(result, 2, words)
    assert "secret-7" not in result.stderr
    assert supervised == []
