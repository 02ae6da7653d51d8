"""`standfast report`: to the terminal, to a file, to people."""

import importlib
import json
import sys
from uuid import uuid4
from zipfile import ZipFile

import pytest
from cli_world import answer, assert_refused

from figures_stage import Stage
from standfast.model.clock import SystemClock
from standfast.model.concurrency import run_without_loop
from standfast.model.states import Move

APP = """
from standfast import CommandChannel, Standfast

app = Standfast("{url}", name="shop")
app.alerts(channels=[CommandChannel(name="ops", command=("/bin/sh", "-c", "cat > sent; exit {code}"))])
"""


@pytest.fixture
def counted(world):
    """Give a store in which a worker has told what it did, and a job is dead."""
    world.dead()
    stage = Stage(world.backend, SystemClock())
    stage.count(*[Move.COMPLETE] * 18, Move.RETRY, Move.DIE, task="send_email", seconds=0.2, late=3)
    run_without_loop(stage.publish())


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize("since", ["5m", "24h", "30d"])
def test_text(standfast, since):
    """What ran and why jobs died, whichever figures are read."""
    told = standfast("report", "--since", since, "--tz", "UTC").stdout
    assert "18 jobs completed, 1 dead job\n" in told
    assert "1  SMTPError: 451 try again  send_email" in told
    assert "(UTC)" in told
    assert "a@example.com" not in told


@pytest.mark.usefixtures("counted")
def test_json(standfast):
    """Spans are seconds, and no arguments are in it."""
    result = standfast("report", "--json")
    told = answer(result)
    [task] = told["tasks"]
    assert (task["task"], task["runs"], task["completed"], task["run_longest"]) == ("send_email", 20, 18, 0.2)
    assert told["deaths"][0]["error"] == "SMTPError: 451 try again"
    assert told["now"] == {"workers": 1, "alerts": [], "queues": []}
    assert told["deliveries"] == {"delivered": 0, "lost": 0, "waiting": 0, "lost_in": []}
    assert "a@example.com" not in result.stdout


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize(("name", "form"), [("r.html", None), ("r.xlsx", None), ("r.pdf", "html"), ("r.TXT", None)])
def test_files(standfast, tmp_path, name, form):
    """The name of the file says what it is, unless it is said."""
    asked = ["report", "--output", name, *(["--format", form] if form else [])]
    assert standfast(*asked).stdout == f"Written to {name}.\n"
    written = tmp_path / name
    if name == "r.xlsx":
        with ZipFile(written) as file:
            assert b"SMTPError: 451 try again" in file.read("xl/sharedStrings.xml")
    else:
        assert written.read_bytes().startswith(b"<!doctype html>") == (name != "r.TXT")
        assert b"SMTPError: 451 try again" in written.read_bytes()
    assert answer(standfast(*asked, "--json"))["written"] == name


def test_html_to_the_terminal(standfast):
    """As it is."""
    assert standfast("report", "--format", "html").stdout.endswith("</main></body></html>\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--format", "xlsx"], "a workbook needs a file: give --output FILE.xlsx"),
        (["--json", "--format", "html"], "--json is a form of its own: leave --format out"),
        (["--since", "31d"], "--since: '31d' is no span between a minute and 30d"),
        (["--tz", "Mars"], "there is no time zone 'Mars'"),
        (["--output", "week.pdf"], "no report is written as .pdf; let the name end in .txt, .html or .xlsx"),
        (
            ["--json", "--output", "r.json"],
            "or say which with --format; or --json without --output, as in --json > r.json",
        ),
        (["--output", "no/such/folder.html"], "cannot be written: No such file or directory"),
        (["--channel", "ops"], "--channel needs MODULE:APP"),
    ],
)
def test_what_cannot_be(standfast, words, told):
    """One line, and what to do."""
    assert_refused(standfast("report", *words), 2, told)


@pytest.fixture
def target(world, tmp_path, monkeypatch):
    """Give a way to write an app whose channel is a program that ends with a code."""

    def write(code: int) -> str:
        name = f"shop_{uuid4().hex}"
        (tmp_path / f"{name}.py").write_text(APP.format(url=world.url, code=code))
        monkeypatch.setattr(sys, "path", [*sys.path])
        importlib.invalidate_caches()
        return f"{name}:app"

    return write


@pytest.mark.usefixtures("counted")
def test_sent_to_people(standfast, target, tmp_path):
    """Now, through a channel of the app."""
    assert standfast("report", "--channel", "ops", target(0)).stdout == "Sent through ops.\n"
    sent = json.loads((tmp_path / "sent").read_text())
    assert sent["title"] == "report in shop: Nothing is wrong now. 18 jobs completed, 1 dead job"
    assert "SMTPError: 451 try again" in sent["text"]
    assert answer(standfast("report", "--channel", "ops", target(0), "--json"))["channel"] == "ops"


@pytest.mark.usefixtures("counted")
def test_not_sent(standfast, target):
    """A channel that is none, or that fails."""
    assert_refused(standfast("report", "--channel", "opps", target(0)), 2, "no channel 'opps'; did you mean ops?")
    assert_refused(standfast("report", "--channel", "ops", target(3)), 1, "channel 'ops'")
