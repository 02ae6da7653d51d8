"""Real processes with hosts, on a store of their own."""

import importlib.util
import os
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from hosting import HostScript

HERE = Path(__file__).resolve().parent


@pytest.fixture
def hosted(tmp_path, monkeypatch):
    """Give the module of the app, on a store of this test's own, for enqueueing and looking."""
    monkeypatch.setenv("HOST_TEST_FOLDER", str(tmp_path))
    spec = importlib.util.spec_from_file_location(f"host_jobs_{os.urandom(4).hex()}", HERE / "host_jobs.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    with module.app:
        yield module


@pytest.fixture
def host_script(tmp_path):
    """Start processes with a host; they are ended afterwards."""
    with ExitStack() as ended:

        def start(**more):
            script = HostScript(tmp_path, **more)
            ended.callback(script.close)
            return script

        yield start
