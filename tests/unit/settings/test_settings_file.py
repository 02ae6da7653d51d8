"""Settings from a file: which file counts, what it goes before, and what is refused."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from test_settings import problems_of

from standfast.settings import BY_DEFAULT, load_settings, read_settings


@contextmanager
def _interrupted_after(seconds: int) -> Iterator[None]:
    """Fail what would wait for ever."""

    def fail(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class TestFile:
    @pytest.mark.parametrize(
        ("file", "header"), [("standfast.toml", ""), ("pyproject.toml", "[project]\nname='x'\n[tool.standfast]\n")]
    )
    def test_it_goes_before_defaults_and_after_all_else(self, tmp_path, file: str, header: str) -> None:
        """Weakest first: default, file, code, environment, command line."""
        (tmp_path / file).write_text(header + 'lease = 20\ngrace = "5m"\nhang_limit = 1\nconcurrency = 2\n')
        loaded = read_settings(
            {"grace": 6, "hang_limit": 2, "concurrency": 3},
            environment={"STANDFAST_HANG_LIMIT": "3", "STANDFAST_CONCURRENCY": "4"},
            options={"concurrency": 5, "lease": None},
        )
        settings = loaded.settings
        assert (settings.lease, settings.grace, settings.hang_limit, settings.concurrency) == (20, 6, 3, 5)
        told = [loaded.where[name] for name in ("look_ahead", "lease", "grace", "hang_limit", "concurrency")]
        assert told == [BY_DEFAULT, file, "the code", "STANDFAST_HANG_LIMIT", "--concurrency"]

    def test_a_variable_names_another(self, tmp_path) -> None:
        """STANDFAST_CONFIG goes before the files of the working directory, which then do not count."""
        (tmp_path / "standfast.toml").write_text("lease = 20\n")
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        own, project = elsewhere / "shop.toml", elsewhere / "pyproject.toml"
        own.write_text('max_wait = "none"\n')
        project.write_text("[tool.standfast]\ngrace = 1\n")
        loaded = read_settings(environment={"STANDFAST_CONFIG": str(own)})
        assert (loaded.settings.lease, loaded.settings.max_wait) == (15, None)
        assert loaded.where["max_wait"] == str(own)
        assert load_settings({"STANDFAST_CONFIG": str(project)}).grace == 1

    @pytest.mark.parametrize(
        ("file", "text", "words"),
        [
            (
                "standfast.toml",
                "leese = 20",
                ["unknown setting leese (from standfast.toml)", "did you mean lease?"],
            ),
            ("standfast.toml", "[worker]\nlease = 20", ["unknown section [worker] (from standfast.toml)"]),
            ("standfast.toml", "lease = [1]", ["lease=[1] (from standfast.toml): must be above 0 seconds"]),
            ("standfast.toml", "lease = true", ["lease=True (from standfast.toml)"]),
            ("standfast.toml", "lease = 'x'", ["lease=x (from standfast.toml)", "write e.g. 30, 30s, 5m or 2h"]),
            ("standfast.toml", "lease = [\n1", ["standfast.toml is no valid TOML: "]),
            ("standfast.toml", "\udcff", ["standfast.toml is no valid TOML"]),
            ("pyproject.toml", "[tool.standfast]\nleese = 1", ["unknown setting leese (from pyproject.toml)"]),
            ("pyproject.toml", "[tool]\nstandfast = 1", ["tool.standfast must be a section"]),
            ("pyproject.toml", "tool = 'standfast'", ["tool.standfast must be a section"]),
            ("pyproject.toml", "[tool.standfast", ["pyproject.toml is no valid TOML"]),
            (
                "standfast.toml",
                f"lease = {'[' * 5_000}{']' * 5_000}",
                ["standfast.toml cannot be read: its values"],
            ),
            ("pyproject.toml", f"[tool.standfast]\nlease = {'[' * 5_000}", ["pyproject.toml cannot be read"]),
        ],
    )
    def test_what_is_wrong_with_it_is_told(self, tmp_path, file: str, text: str, words: list[str]) -> None:
        """The file and the key are named."""
        (tmp_path / file).write_text(text, errors="surrogateescape")
        said = problems_of()
        assert all(word in said for word in words), said

    @pytest.mark.parametrize(
        "text", ["", "[project]\nname = 'x'", "[project]\ndependencies = ['standfast']", "[tool"]
    )
    def test_a_project_file_without_our_section_does_not_count(self, tmp_path, text: str) -> None:
        """Nor does it matter whether it is valid, where nothing in it is about us."""
        (tmp_path / "pyproject.toml").write_text(text)
        (tmp_path / "standfast.toml").write_text("lease = 20")
        assert load_settings({}).lease == 20

    @pytest.mark.parametrize(
        "text",
        [
            "'mysql://u:geheim@h/d' = 3",
            "['mysql://u:geheim@h/d']",
            "lease = {'mysql://u:geheim@h/d' = 3}",
            "url = mysql://u:geheim@h/d",
        ],
    )
    def test_a_password_in_it_is_never_repeated(self, tmp_path, text: str) -> None:
        """Also where the URL is a key, or no value at all."""
        (tmp_path / "standfast.toml").write_text(text)
        said = problems_of()
        assert "geheim" not in said
        assert "standfast.toml" in said

    @pytest.mark.parametrize(("file", "header"), [("standfast.toml", ""), ("pyproject.toml", "[tool.standfast]\n")])
    def test_a_byte_order_mark_does_not_matter(self, tmp_path, file: str, header: str) -> None:
        """Some editors write one."""
        (tmp_path / file).write_text(f"{header}lease = 20\n", encoding="utf-8-sig")
        assert load_settings({}).lease == 20

    @pytest.mark.parametrize("file", ["standfast.toml", "pyproject.toml"])
    def test_a_pipe_is_refused_and_not_waited_for(self, tmp_path, file: str) -> None:
        """Nobody may ever write to it."""
        os.mkfifo(tmp_path / file)
        with _interrupted_after(10):
            assert problems_of().startswith(f"{file} cannot be read: it is a pipe")
            assert problems_of({"STANDFAST_CONFIG": file}).startswith(f"{file} cannot be read: it is a pipe")

    def test_a_device_is_refused(self) -> None:
        """Some have no end; the empty one is no exception."""
        assert "/dev/null cannot be read" in problems_of({"STANDFAST_CONFIG": "/dev/null"})

    def test_two_files_are_refused(self, tmp_path) -> None:
        """Nobody has to know which of them would win."""
        (tmp_path / "standfast.toml").write_text("lease = 20")
        (tmp_path / "pyproject.toml").write_text("[tool.standfast]\nlease = 20")
        said = problems_of()
        assert "standfast.toml" in said
        assert "pyproject.toml" in said

    @pytest.mark.parametrize(
        ("name", "words"), [("none.toml", "no such file"), (".", "directory"), ("pyproject.toml", "no section")]
    )
    def test_a_named_file_must_be_one(self, tmp_path, name: str, words: str) -> None:
        """What STANDFAST_CONFIG names is there, or it is told that it is not."""
        (tmp_path / "pyproject.toml").write_text("[tool.other]")
        said = problems_of({"STANDFAST_CONFIG": name})
        assert name in said
        assert words in said


def test_a_parser_is_not_loaded_for_nothing(tmp_path) -> None:
    """An app without a file of ours does not pay for TOML."""
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    loaded = "{'tomllib', 'difflib'} & {*sys.modules}"
    code = f"import sys; from standfast import Standfast; Standfast(); sys.exit({loaded} != set())"
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=tmp_path).returncode == 0
