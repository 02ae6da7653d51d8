"""The same figures are in the text, the page and the workbook, and foreign text does no harm in any of them."""

import re
import sys
from datetime import UTC, datetime, timedelta, timezone
from io import BytesIO
from xml.etree import ElementTree as ET
from zipfile import ZipFile

import pytest
from msgspec.structs import replace
from report_page import Page
from report_stage import EVIL, FULL, JOB, LONG_SAYS, QUIET, WRONG

from standfast.errors import ConfigurationError
from standfast.observe.reports.html_page import as_page
from standfast.observe.reports.plain_text import as_text
from standfast.observe.reports.report import Deliveries, Present
from standfast.observe.reports.tables import headline, tables_of
from standfast.observe.reports.workbook import as_workbook
from standfast.schedules.zones import find_zone

TAIPEI = timezone(timedelta(hours=8), "CST")
NEW_YORK = timezone(timedelta(hours=-5), "EST")
SHEET = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


def sheets(workbook: bytes) -> dict[str, list[list[str]]]:
    """Return the cells of each sheet, as they are stored."""
    with ZipFile(BytesIO(workbook)) as file:
        names = [each.get("name") for each in ET.fromstring(file.read("xl/workbook.xml")).iter(f"{SHEET}sheet")]
        texts = [
            "".join(part.text or "" for part in each.iter(f"{SHEET}t"))
            for each in ET.fromstring(file.read("xl/sharedStrings.xml")).iter(f"{SHEET}si")
        ]
        return {
            name: _rows(ET.fromstring(file.read(f"xl/worksheets/sheet{number}.xml")), texts)
            for number, name in enumerate(names, 1)
        }


def _rows(sheet, texts):
    assert list(sheet.iter(f"{SHEET}f")) == []
    return [
        [
            texts[int(cell.find(f"{SHEET}v").text)] if cell.get("t") == "s" else cell.find(f"{SHEET}v").text
            for cell in row
        ]
        for row in sheet.iter(f"{SHEET}row")
    ]


def test_the_headline_says_what_went_wrong():
    """Counts with their nouns; or that all was well."""
    assert headline(FULL) == (
        "Wrong now: no worker lives, 2 alerts fire (1 not told yet), 1 queue waits. 1,201 jobs completed,"
        " 40 dead jobs, 2 incidents, 3 missed times, 1 broken objective, 1 lost delivery"
    )
    assert headline(QUIET) == "Nothing is wrong now. 0 jobs completed, nothing went wrong"
    assert QUIET.is_quiet
    assert not FULL.is_quiet


def test_an_incident_that_began_before_is_one_that_goes_on():
    """How often it happened since then nobody knows: the headline counts it once, its line says since when."""
    [new] = FULL.incidents
    old = replace(new, count=10_080, first_at=FULL.since - timedelta(days=7))
    report = replace(QUIET, incidents=(new, old, old))
    assert headline(report).endswith("0 jobs completed, 2 incidents, 2 older incidents that go on")
    assert headline(replace(report, incidents=(old,))).endswith("completed, 1 older incident that goes on")
    assert re.search(r"10,080  crash .* 2026-02-25 14:00:30  2026-03-05 14:00:30", as_text(report, TAIPEI))


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (Present(workers=0), "Wrong now: no worker lives. "),
        (Present(workers=2, alerts=WRONG.alerts[:1]), "Wrong now: 1 alert fires. "),
        (Present(workers=2, queues=WRONG.queues * 2), "Wrong now: 2 queues wait. "),
    ],
)
def test_the_headline_begins_with_what_is_wrong_now(now, words):
    """Whatever it is alone, and then a report is not quiet."""
    report = replace(QUIET, now=now)
    assert headline(report).startswith(words)
    assert not report.is_quiet
    assert '<p class="headline bad">' in as_page(report)


def test_a_delivery_that_was_lost():
    """It is no dead job of anybody's, and trouble all the same."""
    report = replace(QUIET, deliveries=Deliveries(lost=1))
    assert not report.is_quiet
    assert headline(report).endswith("0 jobs completed, 1 lost delivery")
    assert "0 deliveries arrived, 1 did not.\n" in as_text(report)
    assert "delivered" not in as_text(QUIET)


def test_what_is_wrong_now_comes_first():
    """In each form, with the words of alerts uncut, and it is said where nothing is wrong."""
    shown = as_text(FULL, TAIPEI).split("\n\n")[1].splitlines()
    assert shown[0] == "What is wrong now"
    assert [line.split("  ")[1] for line in shown[2:]] == [
        "no worker lives",
        "queue_age",
        "incident",
        "queue waits",
    ]
    assert re.search(rf"mail +2026-03-05 12:00:30 +told +{LONG_SAYS}$", shown[3])
    assert "  not told yet  " in shown[4]
    assert shown[5].endswith("1,340 due jobs, the oldest waits for 2 h; no living worker serves it")
    page = as_page(FULL)
    assert Page(page).cells[0] == "no worker lives"
    assert '<td class="text empty" data-name="about"><span></span></td>' in page
    assert list(sheets(as_workbook(FULL)))[1] == "now"
    assert as_text(QUIET).split("\n\n")[1] == "What is wrong now\n  Nothing is wrong now."
    assert "Nothing is wrong now.</p></section>" in as_page(QUIET).replace("\n", "")


def test_a_queue_that_is_paused_says_so():
    """Somebody may have forgotten it."""
    [line] = WRONG.queues
    paused = replace(line, due=1, is_served=True, paused_at=line.oldest_due_at)
    table = tables_of(replace(QUIET, now=Present(workers=1, queues=(paused,))))[0]
    assert table.rows[0][-1] == "1 due job, the oldest waits for 2 h; it is paused"


def test_more_is_wrong_than_anybody_reads():
    """Some are shown, and where the others are is said; the headline counts them all."""
    report = replace(QUIET, now=Present(workers=1, alerts=WRONG.alerts * 40, queues=WRONG.queues * 51))
    rows = tables_of(report)[0].rows
    assert len(rows) == 102
    assert (rows[50][0], rows[50][-1]) == ("30 more alerts", "`standfast alerts list` shows them")
    assert (rows[101][0], rows[101][-1]) == ("1 more queues", "`standfast doctor` shows them")
    assert "80 alerts fire (40 not told yet), 51 queues wait" in headline(report)


def test_text():
    """A line for each, aligned, times by the zone, and ids as commands take them."""
    told = as_text(FULL, TAIPEI)
    assert told.startswith("shop: 2026-03-04 14:00 to 2026-03-05 14:00 (UTC+08:00)\n")
    [send] = [line.split() for line in told.splitlines() if line.strip().startswith("send ") and "1,300" in line]
    assert send == ["send", "1,300", "1,200", "60", "40", "3", "20", "ms", "90", "ms", "1.5", "s"]
    assert re.search(r"mail +90 % of task send succeed, over 28 d +80 +20 +80 % +−100 % +1\.5×", told)
    assert "3c2d1e0f" in told
    assert JOB not in told
    assert "nightly        3            1    2  2026-03-05 11:00:30  2026-03-05 14:00:30" in told
    assert "  12 deliveries arrived, 1 did not (through ops); 2 on the way.\n" in told
    assert told.endswith("Not looked at: dead jobs beyond the newest 10.\n")
    assert max(map(len, told.splitlines())) < 200


@pytest.mark.parametrize("zone", ["Asia/Taipei", "America/Chicago", "UTC"])
def test_the_zone_of_its_times_is_named_as_all_read_it(zone):
    """CST is that of Taipei for some, and of Chicago for others."""
    for told in (as_text(FULL, find_zone(zone)), as_page(FULL, find_zone(zone))):
        assert f"({zone})" in told


def test_nothing_happened():
    """Each table says so."""
    told = as_text(QUIET)
    for table in tables_of(QUIET):
        assert f"{table.title}\n  {table.nothing}" in told


def test_page():
    """One file: no script, no link, and what is foreign is shown as it is."""
    page = as_page(FULL, TAIPEI)
    read = Page(page)
    assert "script" not in read.tags
    assert read.links == []
    assert re.findall(r"https?://\w+|url\(|@import", page) == ["http://x"] * page.count("HYPERLINK")
    assert EVIL in read.cells
    for shown in ("1,300", "1.5 s", "−100 %", "90 %", "2026-03-05 14:00:30", JOB, "a worker is silent"):
        assert shown in read.cells, shown
    assert "default-src 'none'" in page
    assert "prefers-color-scheme: dark" in page
    assert '<p class="headline bad">' in page
    assert '<p class="headline good">' in as_page(QUIET)


def test_workbook():
    """Numbers are numbers, spans seconds, texts texts and never formulas."""
    found = sheets(as_workbook(FULL, TAIPEI))
    names = ["summary", "now", "objectives", "ran", "died", "incidents", "missed", "slowest", "latest", "alerts"]
    assert list(found) == names
    assert found["ran"][1] == ["send", "1300", "1200", "60", "40", "3", "0.02", "0.09", "1.5"]
    assert found["ran"][-1][:3] == ["all", "1301", "1201"]
    assert found["died"][1][1] == EVIL
    assert found["slowest"][1][:2] == ["print", "5"]
    assert found["latest"][1][:2] == ["send", "61"]
    assert found["objectives"][1][:6] == ["mail", "90 % of task send succeed, over 28 d", "80", "20", "0.8", "-1"]
    arrived = "12 deliveries arrived, 1 did not (through ops); 2 on the way."
    assert found["summary"][2:4] == [[headline(FULL)], [arrived]]
    assert found["now"][2][:2] == ["queue_age", "mail"]
    assert found["now"][3][-1] == EVIL
    assert found["missed"][0][:4] == ["schedule", "missed", "made up for", "not"]
    assert found["missed"][1][:4] == ["nightly", "3", "1", "2"]


def test_a_sheet_of_nothing():
    """Its columns have their names, and no row: programs read it as any other."""
    for name, rows in sheets(as_workbook(QUIET)).items():
        assert name == "summary" or len(rows) == 1, name


def test_a_workbook_without_what_writes_it(monkeypatch):
    """One clear error, with the remedy."""
    monkeypatch.setitem(sys.modules, "xlsxwriter", None)
    with pytest.raises(ConfigurationError, match=r"pip install -e 'path/to/the/clone\[report\]'"):
        as_workbook(QUIET)


def test_a_job_that_is_due_since_the_year_1_is_told_in_any_zone():
    """There is no such time west of Greenwich, and no workbook knows it; the rest of the report is as ever."""
    old = replace(WRONG.queues[0], oldest_due_at=datetime.min.replace(tzinfo=UTC))
    report = replace(FULL, now=replace(WRONG, queues=(old,)))
    for zone in (NEW_YORK, TAIPEI):
        assert "1-01-01 0" in as_text(report, zone)
        assert "1-01-01 0" in as_page(report, zone)
        assert as_workbook(report, zone)
