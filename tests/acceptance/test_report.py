"""A report says what ran, what failed and why, in every form, and is sent without anybody asking."""

import json
import re
from io import BytesIO
from xml.etree import ElementTree as ET
from zipfile import ZipFile

from shopfloor import PROVE, Shop, eventually

from alert_receivers import mail_server

JOBS = 2100 if PROVE else 210
"""Of 35 numbers 7 die of one error; 4 others are tried twice."""

SHEET = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


def rows_of(workbook: bytes, number: int) -> list[list[str]]:
    """Return the cells of a sheet, as they are stored."""
    with ZipFile(BytesIO(workbook)) as file:
        shared = ET.fromstring(file.read("xl/sharedStrings.xml"))
        texts = ["".join(part.text for part in each.iter(f"{SHEET}t")) for each in shared.iter(f"{SHEET}si")]
        sheet = ET.fromstring(file.read(f"xl/worksheets/sheet{number}.xml"))
    return [
        [
            texts[int(value)] if cell.get("t") == "s" else value
            for cell in row
            for value in [cell.findtext(f"{SHEET}v")]
        ]
        for row in sheet.iter(f"{SHEET}row")
    ]


def test_a_report_is_what_ran(tmp_path):
    """Text, page, workbook and JSON have the same figures, which are those of the jobs that ran."""
    completed, died, again = JOBS * 28 // 35, JOBS * 7 // 35, JOBS * 4 // 35
    with Shop(tmp_path, "report_app.py") as shop:
        shop.tasks.send.enqueue_many({"number": number} for number in range(JOBS))
        shop.tasks.ponder.enqueue(seconds=0.3)
        shop.drain("--queues", "default")

        report = shop.asked("report", "--since", "1h")
        ran = {line["task"]: line for line in report["tasks"]}
        assert ran.keys() == {"send", "ponder"}
        send = ran["send"]
        assert (send["completed"], send["failed"], send["dead"]) == (completed, died + again, died)
        assert send["runs"] == JOBS + died + again
        assert 0.3 <= ran["ponder"]["run_longest"] < 30
        [death] = report["deaths"]
        assert (death["count"], death["tasks"]) == (died, ["send"])
        assert report["apps"] == ["shop"]
        assert report["now"]["workers"] == 0
        assert {each["name"]: (each["good"], each["bad"]) for each in shop.asked("objectives")} == {
            "mail": (completed, died),
            "in-time": (JOBS + died + again + 1, 0),
        }

        told = shop.standfast("report").stdout
        line = rf"send +{send['runs']:,} +{completed:,} +{died + again} +{died} +0 "
        assert re.search(line, told), told
        assert "\nWrong now: no worker lives" in told
        assert "\nWhat is wrong now\n" in told
        assert f"{completed + 1:,} jobs completed, {died} dead jobs, 1 broken objective\n" in told
        assert re.search(rf"\b{died}  ConnectionRefusedError: mail\d+\.example\.com refused after ", told)

        page = tmp_path / "report.html"
        assert shop.standfast("report", "--output", str(page)).returncode == 0
        cells = re.sub(r"<[^>]+>", " ", page.read_text())
        assert re.search(r"What is wrong now\s.*no worker lives", cells, re.DOTALL)
        assert re.search(line.replace(" +", r"\s+"), cells)

        book = tmp_path / "report.xlsx"
        assert shop.standfast("report", "--output", str(book)).returncode == 0
        assert rows_of(book.read_bytes(), 2)[1][0] == "no worker lives"
        cells = next(row for row in rows_of(book.read_bytes(), 4) if row[0] == "send")
        assert cells[1:6] == [str(number) for number in (send["runs"], completed, died + again, died, 0)]


def test_a_report_is_sent_by_itself(tmp_path):
    """Once for each time, by whichever of two workers, in the words of its zone; reports are no work themselves."""
    with Shop(tmp_path, "report_app.py") as shop:
        shop.tasks.ponder.enqueue(seconds=0)
        shop.worker()
        shop.worker()
        sent = tmp_path / "sent"
        eventually(lambda: sent.exists() and sent.read_text().count("\n") >= 3, "three reports were sent")
        assert [worker.stop() for worker in shop.workers] == [0, 0]
        notices = [json.loads(line) for line in sent.read_text().splitlines()]
        assert {each["kind"] for each in notices} == {"report"}
        fires = [fire for fire in shop.asked("schedules", "fires", "standfast.report") if fire["job"]]
        assert len({each["id"] for each in notices}) == len(notices)
        assert {each["id"] for each in notices} <= {fire["job"] for fire in fires}
        assert "(Asia/Taipei)" in notices[-1]["text"]
        report = shop.asked("report", "--since", "1h")
        assert [line["task"] for line in report["tasks"]] == ["ponder"]
        assert report["total"]["completed"] == 1
        assert report["deliveries"]["delivered"] == len(notices)


def test_a_report_is_a_mail_with_tables(tmp_path, monkeypatch):
    """What arrives at a real mail server has a page, whose table has the figures of what ran."""
    monkeypatch.chdir(tmp_path)
    with mail_server() as server, Shop(tmp_path, "report_app.py") as shop:
        (tmp_path / "standfast.toml").write_text(
            f"[alerts.channels.mail]\nkind = 'apprise'\nurl = '{server.url}'\n"
        )
        shop.tasks.ponder.enqueue(seconds=0)
        shop.drain("--queues", "default")
        assert shop.standfast("report", "--channel", "mail", "report_app:app").returncode == 0
        [letter] = server.letters.wait_for(1)
    page = letter.message.get_body(("html",)).get_content()
    assert re.search(r"<tr[^>]*><td>ponder</td><td[^>]*>1</td><td[^>]*>1</td><td[^>]*>0</td>", page), page
    assert "<script" not in page
