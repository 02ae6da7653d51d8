"""A wheel built from this clone installs and runs README's first example on every Python of this machine.

Short by the image's build, in test_deploy.py; `make prove NAME=wheel` has each Python.
"""

import subprocess
import sys
import zipfile

import pytest
from docs_session import ROOT
from first_example import run_first_example
from test_host_matrix import pythons


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Give the wheel of this clone."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(build, check=True)
    [built] = folder.iterdir()
    return built


@pytest.mark.full_size
@pytest.mark.timeout(600)
@pytest.mark.parametrize("python", pythons())
def test_a_wheel_runs_the_first_example_of_the_readme(python, wheel, tmp_path):
    environment = tmp_path / "venv"
    subprocess.run([pythons()[python], "-m", "venv", str(environment)], check=True)
    subprocess.run([str(environment / "bin" / "pip"), "install", "--quiet", str(wheel)], check=True)
    run_first_example(environment, tmp_path / "shop")


@pytest.mark.full_size
def test_a_wheel_has_what_users_need_and_nothing_that_only_tests_do(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names if "dist-info" not in name} == {"standfast", "pytest_standfast"}
    for needed in ("stores/sqlite/sql", "stores/redis/lua", "model/texts", "dashboard/web/templates", "py.typed"):
        assert any(name.startswith(f"standfast/{needed}") for name in names), needed
    assert [name for name in names if "conformance" in name or "simulator" in name or "game" in name] == []
