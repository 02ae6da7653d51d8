"""Files of jobs: written while they are read, bounded, without secrets, and harmless to spreadsheets."""

import csv
import io
import json

import pytest

from dashboard_stage import SECRET
from standfast.admin import job_search
from standfast.admin.bulk_jobs import cell


@pytest.fixture
def looks(stage, monkeypatch):
    """Return the looks at the store so far, each at two jobs at most."""
    made, search = [], stage.backend.verbs.list_jobs
    monkeypatch.setattr(job_search, "_PAGE", 2)
    monkeypatch.setattr(stage.backend.verbs, "list_jobs", lambda *which: made.append(which) or search(*which))
    return made


def parts_of(stage, told):
    async def take():
        return [part async for part in told.parts]

    return stage.wait(take())


def file_of(stage, **asked):
    """Return a file, whole."""
    return "".join(parts_of(stage, stage.read("jobs.export", **asked)))


def test_files_hold_what_lists_hold_and_no_secrets(stage):
    """CSV and JSON; a cell that begins like a formula is none; secrets are masked."""
    job = stage.dead("=HYPERLINK(1)", payload=SECRET, tags=("a", "b"), key="=1+1")
    told = file_of(stage, format="json")
    [row] = json.loads(told)
    assert (row["id"], row["args"]["to"]["value"]) == (job, "ada@example.com")
    assert row["args"]["token"]["secret"] is True
    table = file_of(stage, format="csv")
    [line] = csv.DictReader(io.StringIO(table))
    assert (line["id"], line["key"], line["tags"], line["state"]) == (job, "'=1+1", "a b", "dead")
    assert "hunter2" not in told + table


def test_no_more_is_read_than_is_taken(stage, looks):
    """The next page is looked at when the one before is gone: however long a file is, little of it is in memory."""
    jobs = [stage.enqueue() for _ in range(7)]
    told = stage.read("jobs.export")
    assert len(looks) == 1
    stage.wait(anext(told.parts))
    assert len(looks) == 1
    stage.wait(anext(told.parts))
    assert len(looks) == 2
    assert [row["id"] for row in json.loads(file_of(stage))] == jobs[::-1]
    assert len(list(csv.DictReader(io.StringIO(file_of(stage, format="csv"))))) == 7


@pytest.mark.usefixtures("looks")
def test_a_file_ends_at_its_limit_and_another_goes_on_there(stage):
    """It says how many it may have at most."""
    jobs = [stage.enqueue() for _ in range(5)][::-1]
    assert stage.read("jobs.export", limit=3).limit == 3
    first = [row["id"] for row in json.loads(file_of(stage, limit=3))]
    second = [row["id"] for row in json.loads(file_of(stage, limit=3, before=first[-1]))]
    assert (first, second) == (jobs[:3], jobs[3:])
    assert stage.read("jobs.export", text="mail").span == job_search.SPAN


@pytest.mark.usefixtures("looks")
@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_file_is_whole_wherever_its_jobs_are(stage, monkeypatch, form):
    """Also where there are none, and where the first look finds none of them."""
    read = json.loads if form == "json" else lambda text: list(csv.DictReader(io.StringIO(text)))
    assert read(file_of(stage, format=form)) == []
    wanted = [stage.enqueue(tags=("x",)), stage.enqueue(tags=("x",)), stage.enqueue(tags=("x",))]
    for _ in range(5):
        stage.enqueue()
    monkeypatch.setattr(job_search, "REACH", 2)
    assert [row["id"] for row in read(file_of(stage, format=form, tag=("x",)))] == wanted[::-1]


@pytest.mark.parametrize(
    "text",
    ["=1+1", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1+1", "-", "--1", "=", "+cmd|' /C calc'!A0"],
)
def test_no_cell_is_taken_for_a_formula(text):
    assert cell(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "-1", "+1.5", "-0.25", "ada", "1-2", "a=b", " =1"])
def test_what_is_no_formula_stays_as_it_is(text):
    assert cell(text) == text
