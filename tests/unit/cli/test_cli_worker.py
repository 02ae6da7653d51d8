"""`worker`: what is asked for reaches the supervisor, and nonsense does not."""

import sys
from types import ModuleType

import pytest
from cli_world import assert_refused, bare


@pytest.fixture
def supervised(monkeypatch):
    """Stand in for the supervisor and remember what it was asked for."""
    asked = []
    module = ModuleType("holdfast.supervisor.main")
    module.supervise = lambda options: asked.append(options) or 7
    monkeypatch.setitem(sys.modules, "holdfast.supervisor.main", module)
    return asked


def test_what_is_not_said_is_left_to_the_app(supervised):
    assert bare("worker", "shop.jobs:app").exit_code == 7
    (options,) = supervised
    assert (options.target, options.drain, options.processes, options.app_dir) == ("shop.jobs:app", False, 1, ".")
    assert options.concurrency is options.queues is options.grace is options.lease is options.url is None
    assert options.console is True


def test_what_is_said_is_handed_over(supervised, tmp_path):
    command = "worker shop.jobs:make.app --drain --concurrency 50 --processes 4 --queues critical,mail"
    command += f" --grace 0 --lease 2.5 --app-dir {tmp_path} --url sqlite:///x.db --quiet"
    bare(*command.split())
    (options,) = supervised
    assert options.target == "shop.jobs:make.app"
    assert options.drain is True
    assert (options.concurrency, options.processes, options.queues) == (50, 4, ("critical", "mail"))
    assert (options.grace, options.lease) == (0.0, 2.5)
    assert (options.app_dir, options.url, options.console) == (str(tmp_path), "sqlite:///x.db", False)


@pytest.mark.parametrize("target", ["shop", "shop.jobs", ":app", "shop:", "shop/jobs.py:app", "a:b:c", "a b:c", ""])
def test_a_malformed_target_is_refused_with_an_example(supervised, target):
    assert_refused(bare("worker", target), 2, "`holdfast worker myproject.jobs:app`")
    assert supervised == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--queues", "critical=6,mail=3"), "weights as in 'critical=6,mail=3' come in a later release"),
        (("--queues", "a,,b"), "empty name"),
        (("--queues", ""), "empty name"),
        (("--concurrency", "0"), "--concurrency"),
        (("--processes", "-1"), "--processes"),
        (("--grace", "-1"), "--grace"),
        (("--lease", "0"), "--lease"),
        (("--app-dir", "nowhere"), "'nowhere' does not exist"),
    ],
)
def test_a_bad_option_is_refused_before_anything_starts(supervised, options, words):
    assert_refused(bare("worker", "shop:app", *options), 2, words)
    assert supervised == []
