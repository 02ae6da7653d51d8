"""The public face is typed: checkers accept each right call in typed_api.py and refuse each wrong one.

They accept the examples of the documentation, too. Each checker runs once over all of that.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from docs_session import ROOT, blocks_of

API = Path(__file__).with_name("typed_api.py")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BENCH = ROOT / "bench"
UNTYPED = {"docs_howto_django"}
"""Pages about what has no types."""

WRONG = {
    "docs_howto_arguments/line_29.py": ("arg-type", "reportArgumentType"),
    "docs_reference_errors/line_16.py": ("arg-type", "reportArgumentType"),
    "docs_tutorial_first_job/wrong.py": ("arg-type", "reportArgumentType"),
}
"""Examples of what goes wrong, each with what the checkers call it."""

MYPY_INI = """
[mypy]
strict = True
[mypy-pages.*]
disallow_untyped_defs = False
disallow_incomplete_defs = False
warn_return_any = False
disable_error_code = import-untyped, method-assign
"""
"""A reader's functions may be without annotations, as tests are, and assign to `wsgi_app` as Flask asks them to."""

MYPY_REPORT = re.compile(r"^(\S+?):(\d+): error: .*\[([a-z-]+)\]$", re.MULTILINE)
MARK = re.compile(r"# error: (?P<mypy>[a-z-]+), (?P<pyright>\w+)$")
IMPORT = re.compile(r"^( *)(from|import) ([\w.]+(?:, \w+)*)(.*)$", re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Give a folder with the API and, each as a package, the pages: what a page imports of itself is its own."""
    folder = tmp_path_factory.mktemp("typed")
    shutil.copy(API, folder)
    (folder / "mypy.ini").write_text(MYPY_INI)
    (folder / "pages").mkdir()
    (folder / "pages" / "__init__.py").touch()
    for page in PAGES:
        name = re.sub(r"\W", "_", str(page.relative_to(ROOT).with_suffix("")))
        if name not in UNTYPED:
            write_page(folder / "pages" / name, page)
    return folder


def write_page(folder, page):
    """Write the examples of a page: a file that is shown twice is one of another package from there on."""
    files = {}
    for block in blocks_of(page):
        if block.language == "python":
            title = block.title or f"line_{block.line}.py"
            if files.get(title, block.body) != block.body:
                write_package(folder, files)
                folder = folder.with_name(f"{folder.name}_then")
            files[title] = block.body
    if files:
        write_package(folder, files)


def write_package(folder, files):
    own = {title.partition("/")[0].removesuffix(".py") for title in files}

    def theirs(found):
        indent, verb, names, rest = found.groups()
        if not own & {name.partition(".")[0] for name in names.split(", ")}:
            return found[0]
        if verb == "from":
            return f"{indent}from pages.{folder.name}.{names}{rest}"
        return f"{indent}import {', '.join(f'pages.{folder.name}.{name} as {name}' for name in names.split(', '))}"

    for title, body in files.items():
        path = folder / title
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(IMPORT.sub(theirs, body))
    (folder / "__init__.py").touch()


@pytest.fixture(scope="module")
def told_by_mypy(folder):
    checked = run(folder, "mypy", "--cache-dir", ".mypy_cache", "--no-error-summary", "typed_api.py", "pages")
    assert checked.stderr == ""
    return {(file, int(line), code) for file, line, code in MYPY_REPORT.findall(checked.stdout)}


@pytest.fixture(scope="module")
def told_by_pyright(folder):
    checked = run(folder, "pyright", "--outputjson", "--pythonpath", sys.executable, "typed_api.py", "pages")
    assert checked.stdout, checked.stderr
    return {
        (
            str(Path(each["file"]).relative_to(folder.resolve())),
            each["range"]["start"]["line"] + 1,
            each.get("rule"),
        )
        for each in json.loads(checked.stdout)["generalDiagnostics"]
    }


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_each_wrong_argument_is_reported_and_nothing_else(checker, request):
    told = request.getfixturevalue(f"told_by_{checker}")
    assert {each[1:] for each in told if each[0] == API.name} == marked(checker)


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_the_examples_of_the_documentation_are_typed(checker, request):
    """Whoever copies one into a project that is checked has nothing to mend."""
    told = {(file, code) for file, _, code in request.getfixturevalue(f"told_by_{checker}") if file != API.name}
    assert told == {(f"pages/{file}", codes[checker == "pyright"]) for file, codes in WRONG.items()}


def run(folder, module, *args):
    """Run a checker on what is installed here, and on the game."""
    (folder / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [str(BENCH)]}))
    command, environment = [sys.executable, "-m", module, *args], {**os.environ, "MYPYPATH": str(BENCH)}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=110
    )


def marked(checker):
    """Return the lines that a checker must report, each with what it calls the mistake."""
    lines = enumerate(API.read_text().splitlines(), start=1)
    return {(number, found[checker]) for number, line in lines if (found := MARK.search(line))}
