"""Who comes and goes is written down; who guesses is, too, and does not fill the trail."""

import asyncio
from http import HTTPStatus
from ipaddress import ip_address

import pytest

from standfast.admin.audit_trail import FORGIVEN, MOST_KEPT
from standfast.dashboard.access.caller import Caller, Code, Refusal
from standfast.dashboard.serving.middleware import SignInAudit
from standfast.errors import StoreUnavailableError

WRONG = Refusal(HTTPStatus.UNAUTHORIZED, Code.WRONG, "this is not the token")


class Notes:
    """What was written down, and the time."""

    def __init__(self):
        self.now = 0.0
        self.written = []

    async def write(self, *_, **more):
        self.written.append((more["asked"]["from"], int(more["asked"]["times"])))

    def refuse(self, comings, times=1, address="10.0.0.1", refusal=WRONG):
        caller = Caller(ip_address(address), ip_address(address), "http", None)
        for _ in range(times):
            asyncio.run(comings.refused(caller, refusal))


@pytest.fixture
def notes():
    return Notes()


@pytest.fixture
def comings(notes):
    return SignInAudit(notes.write, lambda: notes.now)


def test_of_many_refusals_few_are_written(notes, comings):
    notes.refuse(comings, 1234)
    assert notes.written == [("10.0.0.1", times) for times in (1, 10, 100, 1000)]


def test_after_a_while_the_next_one_is_a_first_one(notes, comings):
    notes.refuse(comings, 5)
    notes.now += FORGIVEN - 1
    notes.refuse(comings, 1)
    notes.now += FORGIVEN
    notes.refuse(comings, 1)
    assert notes.written == [("10.0.0.1", 1)] * 2


def test_those_who_come_from_everywhere_are_counted_together(notes, comings):
    for number in range(5 * MOST_KEPT):
        notes.refuse(comings, address=str(ip_address(0x0A000000 + number)))
    assert len(notes.written) == MOST_KEPT + 3
    assert notes.written[-3:] == [("elsewhere", 1), ("elsewhere", 10), ("elsewhere", 100)]


def test_who_brings_nothing_is_no_news(notes, comings):
    notes.refuse(comings, refusal=Refusal(HTTPStatus.UNAUTHORIZED, Code.SIGN_IN, "sign in first"))
    assert notes.written == []


def test_a_store_that_is_away_keeps_nobody_out(notes, caplog):
    async def away(*_, **__):
        raise StoreUnavailableError("the store is away")

    notes.refuse(SignInAudit(away))
    assert "access.sign_in of (unknown) is not in the audit trail: the store is away" in caplog.text
