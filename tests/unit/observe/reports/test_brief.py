"""A report is sent at a length that people read and services take, and says what is left out."""

import pytest
from report_page import Page
from report_stage import FULL, QUIET, worst_with

from standfast.admin.reports import notice_of
from standfast.observe.reports.plain_text import LONGEST_HTML, LONGEST_TEXT, as_text
from standfast.observe.reports.tables import tables_of

WORST = worst_with("x" * 300)


def text_of(report):
    return notice_of(report, None, "n1").text


@pytest.mark.parametrize("report", [FULL, QUIET])
def test_what_is_short_is_sent_whole(report):
    assert text_of(report) == as_text(report)


def test_the_worst_day_is_sent_in_part():
    """Some of everything; how much is left out, of each; and the sums of all."""
    text = text_of(WORST)
    assert len(as_text(WORST)) > 20 * LONGEST_TEXT
    assert len(text) <= LONGEST_TEXT
    assert "195 more alerts  " in text
    assert "95 more queues  " in text
    parts = {part.splitlines()[0]: part.splitlines()[1:] for part in text.split("\n\n")}
    assert parts["What died, and why"][-1] == "  195 more: `standfast report` shows them."
    assert parts["Alerts that were told"][-1].startswith(
        "  995 more: `standfast report` shows them. 12 deliveries arrived"
    )
    *tasks, total, more = parts["What ran"][1:]
    assert [line.split()[0] for line in tasks] == ["0", "1", "2", "3", "4"]
    assert total.split()[:3] == ["all", "1,301", "1,201"]
    assert more == "  495 more: `standfast report` shows them."


def test_an_objective_that_is_broken_is_among_those_that_are_sent():
    lines = text_of(WORST).split("\nObjectives\n")[1].splitlines()
    assert lines[1].split()[0] == "mail"


def squeezed(words):
    return " ".join(words.split())


@pytest.mark.parametrize("report", [FULL, QUIET, WORST])
def test_the_mail_says_what_the_text_says(report):
    """Row by row, with as much left out; without scripts, and with nothing from elsewhere."""
    notice = notice_of(report, None, "n1")
    rows = [squeezed(" ".join(Page(row).cells)) for row in notice.html.split("<tr valign")[1:]]
    lines = [squeezed(line) for line in notice.text.splitlines()]
    assert [line for line in lines if line in set(rows)] == rows
    assert len(rows) == sum(len(table.rows) for table in tables_of(report, 5))
    page = Page(notice.html)
    assert page.links == []
    assert {"script", "style", "link", "img"}.isdisjoint(page.tags)
    more = "more: `standfast report` shows them."
    assert notice.html.count(more) == notice.text.count(more)


@pytest.mark.parametrize("text", ["<&>" * 100, '"' * 300])
def test_a_mail_fits_whatever_is_in_it(text):
    """Markup makes texts longer, some more than others."""
    notice = notice_of(worst_with(text), None, "n1")
    assert len(notice.text) <= LONGEST_TEXT
    assert 0 < len(notice.html) <= LONGEST_HTML
