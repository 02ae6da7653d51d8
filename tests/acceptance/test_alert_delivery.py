"""People are told: by real mail, a signed webhook and a program, also when the sender is killed in the middle."""

import json
import os
import signal
import threading
from datetime import UTC, datetime

import pytest
from shopfloor import PROVE, Shop, eventually

from alert_receivers import hook, mail_server
from standfast.model.states import State
from standfast.observe.alerts.delivery import order_delivery, trial_notice

KILLS = 10 if PROVE else 1


class Fleet(Shop):
    """Workers of an app that has a channel of each kind."""

    def __init__(self, folder, receiver, mail_url, monkeypatch):
        secrets = {"OPS_URL": f"{receiver.url}/path-of-ops", "OPS_SECRET": receiver.secret, "MAIL_URL": mail_url}
        for name, value in secrets.items():
            monkeypatch.setenv(name, value)
        super().__init__(folder, "delivery_app.py")

    def order(self, *channels):
        """Have a test sent; return the id of the notice, and of the jobs."""
        notice = trial_notice(datetime.now(UTC))
        return notice.id, self.app.call(order_delivery(self.app.verbs, notice, channels))

    def state(self, job_id):
        return self.app.call(self.app.verbs.get(job_id)).state


@pytest.fixture
def nobody():
    """A URL for mail that nobody takes."""
    return "mailto://me:password-of-mail@127.0.0.1:9/?from=a@shop.example&to=b@shop.example&mode=insecure"


def test_a_notice_arrives_by_mail_webhook_and_program(tmp_path, monkeypatch):
    """Each once, with the same id."""
    with hook(204) as receiver, mail_server() as mail, Fleet(tmp_path, receiver, mail.url, monkeypatch) as fleet:
        fleet.worker()
        notice, jobs = fleet.order("ops", "mail", "sms")
        eventually(lambda: all(fleet.state(job) is State.COMPLETED for job in jobs), "all were sent")
        [posted], [letter] = receiver.got, mail.letters.got
        [line] = (tmp_path / "sms").read_text().splitlines()
        assert (posted["signed"], posted["headers"]["X-Standfast-Delivery"], posted["said"]["id"]) == (
            True,
            notice,
            notice,
        )
        assert posted["said"]["link"] == "https://shop.example/jobs/alerts"
        assert letter.subject == "test in shop:app: this is how an alert arrives"
        assert notice in letter.text
        assert json.loads(line)["id"] == notice


@pytest.mark.parametrize("whole_tree", [False, True])
def test_a_sender_that_is_killed_in_the_middle_loses_nothing(tmp_path, monkeypatch, nobody, whole_tree):
    """What it had sent is sent once more at most, with the same id: by its successor, or by another machine."""
    killed = threading.Event()
    with (
        hook(204, busy=lambda number: number % 2 == 1 and killed.wait(60)) as receiver,
        Fleet(tmp_path, receiver, nobody, monkeypatch) as fleet,
    ):
        for _ in range(KILLS):
            came = len(receiver.got)
            killed.clear()
            worker = fleet.worker()
            notice, [job] = fleet.order("ops")
            receiver.wait_for(came + 1)
            if whole_tree:
                worker.kill()
                fleet.worker()
            else:
                [child] = worker.children
                os.kill(child, signal.SIGKILL)
            receiver.wait_for(came + 2)
            killed.set()
            eventually(lambda job=job: fleet.state(job) is State.COMPLETED, "it was sent")
            assert [got["said"]["id"] for got in receiver.got[came:]] == [notice, notice]
            for each in fleet.workers:
                each.kill()


def test_no_secret_reaches_the_store_or_the_log(tmp_path, monkeypatch, nobody):
    """All three fail again and again, each in its own words; none of these has a secret in it."""
    with hook(500) as receiver, Fleet(tmp_path, receiver, nobody, monkeypatch) as fleet:
        (tmp_path / "sms").mkdir()  # no program can write there
        worker = fleet.worker()
        _, jobs = fleet.order("ops", "mail", "sms")

        def failed(job):
            return [a for a in fleet.app.call(fleet.app.verbs.history(job)) if a.how == "retry"]

        eventually(lambda: all(failed(job) for job in jobs), "all have failed")
        told = [failed(job)[0].error for job in jobs]
        assert "the receiver answered 500" in told[0]
        assert "apprise could not send it" in told[1]
        assert "ended with exit code 1" in told[2]
        worker.stop()
        files = [file for file in tmp_path.glob("jobs.db*") if file.is_file()]
        written = b"".join(file.read_bytes() for file in files) + worker.words.encode()
        assert b"the receiver answered 500" in written
        for secret in (receiver.secret, "path-of-ops", "key-of-ops", "password-of-mail"):
            assert secret.encode() not in written


def test_a_worker_that_lacks_a_secret_says_which(tmp_path, monkeypatch, nobody):
    """At its start, and not when somebody should have been told."""
    with hook() as receiver, Fleet(tmp_path, receiver, nobody, monkeypatch) as fleet:
        (tmp_path / "standfast.toml").write_text(
            '[alerts.channels.chat]\nkind = "apprise"\nurl = "slack://${CHAT_TOKEN}"\n'
        )
        worker = fleet.start(STANDFAST_CONFIG=str(tmp_path / "standfast.toml"))
        assert worker.wait() == 2
        assert "the variable CHAT_TOKEN is not set" in worker.words
        assert "Traceback" not in worker.words
