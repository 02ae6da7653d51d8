"""A report that goes by mail is one that mail programs show as tables; elsewhere it is the text."""

import json
from datetime import timedelta

import pytest
from report_page import Page
from report_stage import EVIL, FULL, worst_with
from test_send_reports import EVENING, deliveries

from alert_receivers import mail_server
from standfast import AppriseChannel, CommandChannel, Standfast
from standfast.admin.reports import notice_of, schedule_report
from standfast.observe.alerts.delivery import ARGUMENTS, send
from standfast.observe.alerts.senders import takes_html
from standfast.testing import StandfastKit


@pytest.fixture
def server():
    with mail_server() as server:
        yield server


def part(letter, kind):
    """Return what a letter has of a kind, or None."""
    return next((each.get_content() for each in letter.message.walk() if each.get_content_type() == kind), None)


def report_of_a_morning(channel):
    """Let a report go through a channel in the morning, and return the notice."""
    app = Standfast("memory://", name="shop")
    app.alerts(channels=[channel], dashboard_url="https://shop.example/jobs")

    @app.task(max_attempts=1)
    def pack() -> None:
        raise ConnectionRefusedError("no <box>")

    schedule_report(app, "0 7 * * *", tz="Asia/Taipei", channel=channel.name)
    with StandfastKit(app, start=EVENING) as kit:
        pack.enqueue()
        kit.live(timedelta(minutes=31))
        [job] = deliveries(app)
        return ARGUMENTS.decode(job.payload)["notice"]


def test_the_mail_of_a_morning(server):
    """HTML, with what died in a table, and where to look; and a text for those who read no HTML."""
    report_of_a_morning(AppriseChannel(name="mail", url=server.url))
    [letter] = server.letters.wait_for(1)
    assert letter.message.get_content_type() == "multipart/alternative"
    page = Page(part(letter, "text/html"))
    assert page.cells[:3] == ["1", "ConnectionRefusedError: no <box>", "pack"]
    assert page.links == ["https://shop.example/jobs/alerts"]
    assert "(Asia/Taipei)" in part(letter, "text/html")
    assert "ConnectionRefusedError: no <box>" in part(letter, "text/plain")


def test_a_mail_that_is_to_be_text(server):
    """Its tables are aligned, and no HTML is stored."""
    notice = report_of_a_morning(AppriseChannel(name="mail", url=f"{server.url}&format=text"))
    [letter] = server.letters.wait_for(1)
    assert letter.message.get_content_type() == "text/plain"
    assert notice.text.rstrip() in letter.text.replace("\r\n", "\n")
    assert notice.html == ""


def test_a_mail_by_a_template(server):
    """Whoever has words of their own gets these, in a morning and when somebody asks."""
    channel = AppriseChannel(name="mail", url=server.url, body="Read this.\n{says}")
    assert report_of_a_morning(channel).html == ""
    send(notice_of(FULL, None, "n1"), channel)
    for letter in server.letters.wait_for(2):
        assert letter.text.startswith("Read this.")
        assert part(letter, "text/html") is None


def test_a_program_gets_no_html(tmp_path):
    """Neither in a morning nor when somebody asks."""
    channel = CommandChannel(name="ops", command=("/bin/sh", "-c", f"cat > {tmp_path}/sent"))
    assert report_of_a_morning(channel).html == ""
    send(notice_of(FULL, None, "n1"), channel)
    sent = json.loads((tmp_path / "sent").read_text())
    assert "html" not in sent
    assert sent["text"].startswith("shop: ")


@pytest.mark.parametrize("text", ["x", '"'])
def test_the_worst_day_is_one_mail(server, text):
    """A page in pieces is none."""
    send(notice_of(worst_with(text * 300), None, "n1"), AppriseChannel(name="mail", url=server.url))
    send(notice_of(FULL, None, "n2"), AppriseChannel(name="mail", url=server.url))
    worst, full = server.letters.wait_for(2)
    assert part(worst, "text/html").rstrip().endswith("</html>")
    assert EVIL in Page(part(full, "text/html")).cells
    assert len(server.letters.got) == 2


@pytest.mark.parametrize(
    ("url", "is_so"),
    [
        ("mailto://me:hush@mail.example", True),
        ("MAILTOS://me:hush@mail.example?to=ops@shop.example&format=html", True),
        ("sendgrid://key:me@shop.example/ops@shop.example", True),
        ("mailto://me:hush@mail.example?format=text", False),
        ("mailto://me:hush@mail.example?format=markdown", False),
        ("tgram://bot/chat", False),
        ("json://shop.example", False),
    ],
)
def test_which_services_take_pages(url, is_so):
    """Those that send mail: a page with tables is refused, or shown as a heap of words, by chats."""
    assert takes_html(url) is is_so
