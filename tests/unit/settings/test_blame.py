"""Who is to blame for a mistake: what a file or a variable says is told as it is, and not as the module's."""

import importlib
import sys
from uuid import uuid4

import pytest

from standfast.errors import ConfigurationError
from standfast.hosts.loader import load_app


@pytest.fixture
def refusal(tmp_path, monkeypatch):
    """Give a way to import an app beside a settings file, and to hear why it is refused."""

    def load(file: str, code: str = "Standfast()") -> tuple[str, str]:
        monkeypatch.setattr(sys, "path", [*sys.path])
        name = f"shop_{uuid4().hex}"
        (tmp_path / "standfast.toml").write_text(file)
        (tmp_path / f"{name}.py").write_text(f"from standfast import Standfast\napp = {code}\n")
        importlib.invalidate_caches()
        with pytest.raises(ConfigurationError) as refused:
            load_app(f"{name}:app", str(tmp_path))
        return name, str(refused.value)

    return load


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("leas = 3\n", "unknown setting leas (from standfast.toml); did you mean lease?"),
        (
            "[alerts]\nenbled = false\n",
            "[alerts] has no option 'enbled'; did you mean enabled? (from standfast.toml)",
        ),
        ('[alerts.channels.ops]\nkind = "fax"\n', "channel 'ops': no channel is of kind 'fax'; "),
        ("[objectives.mail]\ntarget = 7\n", "objective 'mail': target must be a share between 0 and 1"),
        ('[alerts]\nquiet_hours = [{ start = "25:00", end = "07:00" }]\n', "quiet_hours: the start of a window "),
        ('[alerts]\ndashboard_url = "gopher:x"\n', "dashboard_url (from standfast.toml) must look like "),
    ],
)
def test_a_mistake_in_the_file_is_told_as_it_is(refusal, file, words):
    """The module is all right, and is not spoken of."""
    name, told = refusal(file)
    assert told.startswith(words)
    assert "standfast.toml" in told
    assert name not in told


def test_so_is_one_in_a_variable(refusal, monkeypatch):
    monkeypatch.setenv("STANDFAST_LEASE", "x")
    assert refusal("")[1].startswith("lease=x (from STANDFAST_LEASE): must be ")


@pytest.mark.parametrize("code", ["Standfast(lease=-1)", "Standfast(lease=1, beat=1)"])
def test_a_mistake_in_the_code_is_told_with_its_line(refusal, code):
    """Also if the file has one, too."""
    for file in ("", "leas = 3\n"):
        name, told = refusal(file, code)
        assert told.startswith(f"{name} cannot be imported: ConfigurationError: ")
        assert told.endswith(f"{name}.py, line 2)")
