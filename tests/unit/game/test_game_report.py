"""The report is complete, can be opened, and says what was played."""

import re
import zipfile

import msgspec
import pytest
from game_world import evidence_of, tournament_of

from game.report import prepare_board, prepare_report, write_board, write_report
from game.report.rows import SECONDS_APART, STEPS, call_rows, job_rows, shares, spent
from game.timetable import Mode

PNG = b"\x89PNG\r\n\x1a\n"
LARGEST = 1_000_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report") / "new" / "folder"
    prepare_report(folder)
    write_report([tournament_of()], folder)
    return folder


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    folder = tmp_path_factory.mktemp("board") / "new"
    for tournament in (
        tournament_of("ours", "naive"),
        tournament_of(evidence={"mine:Mine": evidence_of("lookahead")}),
        tournament_of("ours", duration=20.0),
    ):
        prepare_board(folder)
        write_board([tournament], folder)
    return folder


def test_all_files_are_there_and_small(folder):
    names = {"README.md", "game.xlsx", "delays.png", "cost-efficiency.png"}
    assert {file.name for file in folder.iterdir()} == names
    assert [file.name for file in folder.iterdir() if file.stat().st_size > LARGEST] == []


def test_the_pictures_are_pictures(folder):
    for name in ("delays.png", "cost-efficiency.png"):
        assert (folder / name).read_bytes().startswith(PNG)


def test_the_page_names_scores_verdicts_and_files(folder):
    text = (folder / "README.md").read_text()
    assert "# The scheduling game: 5 instances, jobs over 600 s" in text
    assert re.search(r"^\| Standfast \| 6,600 \| 6,600 \| 66 \| 0 \| 0 \| 86\.\d\d \|", text, re.MULTILINE)
    assert "✓ COST 6,600 ≤ 7,000" in text
    assert "Among those of WORKERS05: COST first of 9, EFFICIENT first of 9" in text
    assert "01 March 2026, 12:00 UTC" in text
    linked = re.findall(r"\]\(([^)]+)\)", text)
    assert set(linked) == {"delays.png", "cost-efficiency.png", "game.xlsx"}


def test_the_workbook_has_its_sheets_charts_and_rows(folder):
    with zipfile.ZipFile(folder / "game.xlsx") as book:
        names = re.findall(r'<sheet name="([^"]+)"', book.read("xl/workbook.xml").decode())
        sheets = {name: book.read(f"xl/worksheets/sheet{number}.xml") for number, name in enumerate(names, 1)}
        charts = [name for name in book.namelist() if re.fullmatch(r"xl/charts/chart\d\.xml", name)]
        words = book.read("xl/sharedStrings.xml").decode()
    assert names == ["Summary", "Charts", "Jobs", "Calls", "Instances", "Published", "Chart data"]
    assert len(charts) == 3
    rows = {name: sheet.count(b"<row ") for name, sheet in sheets.items()}
    assert (rows["Jobs"], rows["Published"]) == (1 + 4 * 50, 1 + 99)
    assert rows["Calls"] == 1 + 66 + 300 + 71 + 132
    assert "COST 6,600 ≤ 7,000" in words


def test_a_shorter_game_says_that_it_does_not_compare(tmp_path):
    write_report([tournament_of("ours", mode=Mode.KILL, duration=20.0)], tmp_path)
    text = (tmp_path / "README.md").read_text()
    assert "**This was not the game as published" in text
    assert "of these killed | Standfast 0" in text
    assert "published runs" not in text


def test_a_report_replaces_the_one_before(tmp_path):
    for duration in (600.0, 20.0):
        write_report([tournament_of("naive", duration=duration)], tmp_path)
    assert "jobs over 20 s" in (tmp_path / "README.md").read_text()


def test_nobody_ran_at_all(tmp_path):
    """A strategy whose instances never came has figures all the same, and a row in every picture."""
    nothing = evidence_of("naive", jobs=0)
    write_report([tournament_of(evidence={"naive": nothing})], tmp_path)
    assert "| naive polling | 30,000 |" in (tmp_path / "README.md").read_text()


def test_two_rounds_are_one_report(tmp_path):
    """--mode both: one page for the reliability round and the benchmark, each with its files."""
    write_report([tournament_of("ours", mode=Mode.RELIABILITY), tournament_of("ours")], tmp_path)
    text = (tmp_path / "README.md").read_text()
    assert text.index("5 instances of which 3 go for good") < text.index("✓ COST 6,600 ≤ 7,000")
    linked = set(re.findall(r"\]\(([^)]+)\)", text))
    assert linked == {file.name for file in tmp_path.iterdir()} - {"README.md"}
    assert len(linked) == 6


class TestBoard:
    """A board keeps all runs that were added to it, and shows them beside the published ones."""

    def test_a_line_for_each_strategy_and_run(self, board):
        runs = [msgspec.json.decode(line) for line in (board / "runs.jsonl").read_bytes().splitlines()]
        assert [run["strategy"] for run in runs] == ["ours", "naive", "mine:Mine", "ours"]
        assert {run["mode"] for run in runs} == {"WORKERS05"}

    def test_the_page_ranks_what_compares(self, board):
        text = (board / "README.md").read_text()
        rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| 2026")]
        assert [(row[1], row[6], row[-2]) for row in rows] == [
            ("Standfast", "6,600", "4 of 87"),
            ("mine:Mine", "13,200", "11 of 87"),
            ("naive polling", "30,000", "19 of 87"),
            ("Standfast", "6,600", "–"),
        ]
        assert set(re.findall(r"\]\(([^)]+)\)", text)) == {"cost-efficiency.png", "game.xlsx"}

    def test_the_picture_and_the_workbook_are_written(self, board):
        assert (board / "cost-efficiency.png").read_bytes().startswith(PNG)
        with zipfile.ZipFile(board / "game.xlsx") as book:
            runs, published = (book.read(f"xl/worksheets/sheet{number}.xml").count(b"<row ") for number in (1, 2))
        assert (runs, published) == (1 + 4, 1 + 99)


class TestRows:
    TOURNAMENT = tournament_of("ours")

    def test_a_job(self):
        assert next(job_rows(self.TOURNAMENT)) == (
            "Standfast",
            0,
            30.0,
            pytest.approx(2.0, abs=0.01),
            pytest.approx(85.0, abs=0.01),
            pytest.approx(86.0, abs=0.01),
            "yes",
            1,
            "1.1",
            "complete",
        )

    def test_a_call(self):
        assert next(call_rows(self.TOURNAMENT)) == ("Standfast", "1.1", 0.0, "claim", 1.0, 5, None, 100, None)

    def test_what_was_spent_by_when(self):
        points = spent(self.TOURNAMENT.evidence["ours"])
        assert points[:3] == [(0, 0), (SECONDS_APART, 600), (2 * SECONDS_APART, 1_100)]
        assert points[-1][1] == 6_600

    def test_shares_of_jobs(self):
        told = dict(zip(STEPS, shares([83.5, 84.0, 84.5, 400.0]), strict=True))
        assert {step: share for step, share in told.items() if share} == {84: 50.0, 85: 25.0, 500: 25.0}
        assert set(shares([])) == {0.0}
