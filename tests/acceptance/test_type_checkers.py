"""The public face is typed: checkers accept each right call in typed_api.py and refuse each wrong one."""

import json
import re
import subprocess
import sys
from pathlib import Path

API = Path(__file__).with_name("typed_api.py")
ROOT = Path(__file__).parents[2]
MYPY_REPORT = re.compile(r"typed_api\.py:(\d+): error: .*\[([a-z-]+)\]$", re.MULTILINE)
MARK = re.compile(r"# error: (?P<mypy>[a-z-]+), (?P<pyright>\w+)$")


def test_mypy_strict_reports_each_wrong_argument_and_nothing_else(tmp_path):
    checked = run("mypy", "--strict", "--cache-dir", str(tmp_path), "--no-error-summary", str(API))
    assert checked.stderr == ""
    reported = {(int(line), code) for line, code in MYPY_REPORT.findall(checked.stdout)}
    assert reported == marked("mypy"), checked.stdout


def test_pyright_reports_each_wrong_argument_and_nothing_else():
    checked = run("pyright", "--outputjson", "--pythonpath", sys.executable, str(API))
    assert checked.stdout, checked.stderr
    told = json.loads(checked.stdout)["generalDiagnostics"]
    reported = {(each["range"]["start"]["line"] + 1, each.get("rule")) for each in told}
    assert reported == marked("pyright"), json.dumps(told, indent=2)


def run(module, *args):
    """Run a checker on what is installed here."""
    return subprocess.run(
        [sys.executable, "-m", module, *args], cwd=ROOT, capture_output=True, text=True, check=False, timeout=110
    )


def marked(checker):
    """Return the lines that a checker must report, each with what it calls the mistake."""
    lines = enumerate(API.read_text().splitlines(), start=1)
    return {(number, found[checker]) for number, line in lines if (found := MARK.search(line))}
