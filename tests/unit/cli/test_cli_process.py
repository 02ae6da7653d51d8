"""Help, version and the installed entry point."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cli_world import bare, leaf_commands

PROGRAM = Path(sys.executable).with_name("standfast")
LOADED = "import sys; from standfast.cli.main import cli; cli(standalone_mode=False); print(*sys.modules)"


class TestHelp:
    @pytest.mark.parametrize(
        "path", [(), *(path for path, _ in leaf_commands()), ("jobs",), ("dead",), ("queues",)]
    )
    def test_each_command_explains_itself_with_examples(self, path):
        text = bare(*path, "--help").stdout
        assert "Examples:\n" in text
        assert f"    standfast {' '.join(path)}".rstrip() in text
        assert "..." not in text.partition("Commands:")[2]

    def test_the_exit_codes_are_documented(self):
        text = bare("--help").stdout
        assert all(re.search(rf"^ +{code} +\w", text, re.MULTILINE) for code in (0, 1, 2, 3, 130))

    def test_the_version(self):
        assert re.fullmatch(r"standfast \d+\.\d+\.\d+\S*\n", bare("--version").stdout)


class TestAsAProcess:
    """The same through the installed entry point."""

    @staticmethod
    def run(*args, **how):
        return subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=60, check=False, **how)

    def test_json_goes_to_stdout_and_nothing_to_stderr(self, world):
        job_id = world.enqueue()
        result = self.run("jobs", "list", "--json", "--url", world.url)
        assert (result.returncode, result.stderr) == (0, "")
        assert [job["id"] for job in json.loads(result.stdout)] == [job_id]

    def test_a_command_loads_no_other(self, world):
        """Whoever asks for one thing does not wait for all."""
        result = subprocess.run(
            [sys.executable, "-c", LOADED, "stats", "--url", world.url], check=True, capture_output=True, text=True
        )
        loaded = set(result.stdout.splitlines()[-1].split())
        assert loaded & {f"standfast.cli.{path[0]}" for path, _ in leaf_commands()} == {"standfast.cli.stats"}

    def test_a_misspelt_command_is_guessed(self):
        result = self.run("job")
        assert (result.returncode, result.stdout) == (2, "")
        assert "Did you mean `standfast jobs`?" in result.stderr

    def test_an_error_is_one_line_and_its_exit_code(self, tmp_path):
        result = self.run("jobs", "list", cwd=tmp_path)
        assert (result.returncode, result.stdout) == (3, "")
        assert re.fullmatch(r"standfast: there is no database [^\n]+\n", result.stderr)
        assert list(tmp_path.iterdir()) == []

    def test_a_terminal_without_unicode_is_no_reason_to_fail(self, world):
        world.enqueue(task="grüße")
        environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
        result = self.run("jobs", "list", "--url", world.url, env=environment)
        assert (result.returncode, result.stderr) == (0, "")

    def test_a_reader_that_leaves_early_is_no_error_to_tell(self, world):
        for _ in range(3):
            world.enqueue()
        pipeline = f"{PROGRAM} jobs list --url {world.url} | head -n 1"
        result = subprocess.run(pipeline, shell=True, capture_output=True, text=True, timeout=60, check=False)
        assert result.stdout.startswith("ID ")
        assert result.stderr == ""
