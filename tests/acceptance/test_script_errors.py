"""What a user's script says when its store cannot be used: one traceback of the script, and our line at its end."""

import subprocess
import sys

import pytest

SCRIPT = """\
import asyncio, sys
from standfast import Standfast

app = Standfast(sys.argv[1], store_timeout=5)

@app.task
def greet(name: str) -> None: ...

greet.enqueue("Ada") if sys.argv[2] == "sync" else asyncio.run(greet.aenqueue("Ada"))
"""


def said_by_script(tmp_path, url, how):
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py", url, how],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    return done.stderr


@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize("store", ["postgres", "redis"])
def test_a_wrong_password(tmp_path, request, store, how):
    """The way through the driver is not shown, nor the password; the last line says what to do."""
    url = request.getfixturevalue(f"{store}_url")
    right = url.partition("@")[0].rpartition(":")[2]
    said = said_by_script(tmp_path, url.replace(right, "m1staken"), how)
    assert_one_traceback(said)
    assert "password" in said.splitlines()[-1]
    assert "m1staken" not in said
    assert right not in said


@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize("url", ["postgresql://me@127.0.0.1:1/jobs", "redis://127.0.0.1:1/0"])
def test_a_server_out_of_reach(tmp_path, url, how):
    said = said_by_script(tmp_path, url, how)
    assert_one_traceback(said)
    assert said.splitlines()[-1].startswith("standfast.errors.StoreUnavailableError: ")
    assert "start" in said.splitlines()[-1]


def assert_one_traceback(said):
    assert said.count("Traceback (most recent call last)") == 1, said
    assert 'File "' in said
    for driver in ("psycopg", "redis"):
        assert f"site-packages/{driver}/" not in said, said
    assert said.splitlines()[-1].startswith("standfast.errors.Store")
