"""Commands of `standfast`, run in this process: to start another takes longer than most of them run.

What only a process shows, tests/unit/cli/test_cli_process.py asks; so do those here that start one themselves.
"""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from subprocess import CompletedProcess

from click.testing import CliRunner

from standfast.cli.main import cli

BRIEF = frozenset(
    {
        "jobs",
        "dead",
        "queues",
        "schedules",
        "workers",
        "locks",
        "incidents",
        "alerts",
        "stats",
        "objectives",
        "report",
        "why",
    }
)
"""Commands that look at a store or change it, and do nothing to the process in which they run."""


def ask(words: Sequence[str], environment: Mapping[str, str]) -> CompletedProcess[str]:
    """Run one of them in these surroundings, where nobody is at a terminal."""
    assert words[0] in BRIEF, words
    without = dict.fromkeys(os.environ.keys() - environment.keys())
    with ThreadPoolExecutor(
        1
    ) as own:  # a browser's test has an event loop in its thread, and commands have their own
        runner = CliRunner(env={**without, **environment})
        ended = own.submit(runner.invoke, cli, words, prog_name="standfast").result()
    if ended.exception is not None and not isinstance(ended.exception, SystemExit):
        raise ended.exception
    return CompletedProcess(["standfast", *words], ended.exit_code, ended.stdout, ended.stderr)
