"""OpenTelemetry is an extra: nothing loads it unless it is asked for, and where it is missing one error says so."""

import subprocess
import sys


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_an_app_that_is_not_traced_loads_nothing_of_it():
    ended = run(
        "import sys\nfrom standfast import Standfast\nStandfast('memory://')\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    assert ended.returncode == 0, ended.stderr


def test_where_it_is_missing_the_remedy_is_told():
    hidden = (
        "import sys\nfrom importlib.machinery import PathFinder\n"
        "find = PathFinder.find_spec\n"
        "hidden = 'opentelemetry'\n"
        "PathFinder.find_spec = lambda name, *more: None if name.startswith(hidden) else find(name, *more)\n"
        "from standfast import Standfast\nStandfast('memory://').use_tracing()"
    )
    ended = run(hidden)
    assert ended.returncode == 1
    last = ended.stderr.strip().splitlines()[-1]
    assert last == (
        "standfast.errors.ConfigurationError: app.use_tracing needs opentelemetry-api, which is not installed:"
        " run pip install -e 'path/to/the/clone[otel]'"
    )
