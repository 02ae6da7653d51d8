"""The desk: floods are folded, an absent store loses little and says so, and nothing counts twice."""

import asyncio
import logging
from datetime import timedelta

import pytest
from reporting import NOON, STACKS, Office, a_job, an_incident, play

from standfast.model.incidents import Evidence, Trouble
from standfast.model.job import NewJob
from standfast.model.secrets import MASK
from standfast.observe.incidents import forget_incidents
from standfast.stores.verb import run_procedure
from standfast.supervisor.incidents import recorder as desk_module
from standfast.supervisor.incidents.recorder import MOST_JOBS, MOST_REMEMBERED, MOST_WAITING, SAME_WITHIN


def test_an_incident_is_in_the_store_at_once_with_its_evidence():
    """One call writes both."""

    async def story(office):
        incident_id = office.report(jobs=(a_job(1),))
        await asyncio.sleep(0.01)
        [kept] = office.kept()
        assert (kept.id, kept.count, kept.jobs) == (incident_id, 1, (a_job(1),))
        assert office.evidence(incident_id) == STACKS.parts
        assert office.backend.changes == 1

    play(story)


def test_a_flood_is_one_incident_and_a_handful_of_writes():
    """Ten thousand within twenty seconds: one record with the whole count, written at most every five seconds."""

    async def story(office):
        ids = set()
        for number in range(10_000):
            last_at = NOON + timedelta(seconds=number / 500)
            ids.add(office.report(an_incident(at=last_at, last_at=last_at, jobs=(a_job(number),))))
            if number % 100 == 0:
                await asyncio.sleep(0.2)
        await asyncio.sleep(6)
        [kept] = office.kept()
        assert ids == {kept.id}, "every report is told the id under which it is kept"
        assert kept.count == 10_000
        assert (kept.at, kept.last_at) == (NOON, NOON + timedelta(seconds=9_999 / 500))
        assert kept.jobs == tuple(a_job(number) for number in range(10_000 - MOST_JOBS, 10_000)), "the last"
        assert len(kept.jobs) + kept.more_jobs == 10_000
        assert office.evidence(kept.id) == STACKS.parts
        assert office.backend.changes <= 7

    play(story)


def test_counts_that_a_child_has_folded_already_are_added():
    """One report may stand for many."""

    async def story(office):
        office.report(count=3)
        office.report(count=40)
        await asyncio.sleep(6)
        assert [kept.count for kept in office.kept()] == [43]

    play(story)


@pytest.mark.parametrize(
    "different", [{"trouble": Trouble.HANG}, {"fingerprint": "exit-7"}, {"host": "web-02"}, {"fingerprint": ""}]
)
def test_what_differs_is_another_incident(different):
    """Trouble, fingerprint and host make the same; one without a fingerprint is like no other."""

    async def story(office):
        assert office.report(**different) != office.report()
        office.report(fingerprint="")
        office.report(fingerprint="")
        await asyncio.sleep(0.01)
        assert len(office.kept()) == 4

    play(story)


def test_the_same_much_later_is_another_incident():
    """Ten minutes after the last time, not after the first."""

    async def story(office):
        first = office.report()
        for _ in range(3):
            await asyncio.sleep(SAME_WITHIN - 1)
            assert office.report() == first
        await asyncio.sleep(SAME_WITHIN + 1)
        assert office.report() != first
        await asyncio.sleep(6)
        assert sorted(kept.count for kept in office.kept()) == [1, 4]

    play(story)


def test_a_lost_answer_doubles_nothing():
    """The store has written it, and its answer is lost, several times: it counts once."""

    async def story(office):
        office.backend.lose_answers = 2
        office.report(count=2)
        await asyncio.sleep(6)
        office.backend.lose_answers = 2
        office.report(count=5)
        await asyncio.sleep(12)
        assert [kept.count for kept in office.kept()] == [7]
        assert not office.desk._cases.waiting()

    play(story)


def test_what_comes_while_the_store_is_away_is_kept_on_hand_and_what_is_lost_is_told(caplog):
    """The newest hundred are written when it is back, and how many were not is said, once."""

    async def story(office):
        office.backend.away = True
        ids = [office.report(fingerprint=f"f{number}") for number in range(MOST_WAITING + 7)]
        await asyncio.sleep(60)
        assert office.kept() == ()
        office.backend.away = False
        await asyncio.sleep(10)
        assert {kept.id for kept in office.kept()} == set(ids[7:])

    with caplog.at_level(logging.WARNING, logger=desk_module.__name__):
        play(story)
    assert [record.getMessage() for record in caplog.records] == [
        "the store is away and too many incidents wait for it: the oldest will be on disk only",
        "7 incidents were not written to the store while it was away",
    ]


def test_memory_is_bounded_however_many_different_ones_come():
    """What is written is remembered for a while, to fold the same into it; but not without end."""

    async def story(office):
        for number in range(3 * MOST_REMEMBERED):
            office.report(fingerprint=f"f{number}")
            await asyncio.sleep(0.01)
        assert len(office.desk._cases._cases) == len(office.desk._cases._open) == MOST_REMEMBERED
        assert not any(case.evidence.parts for case in office.desk._cases._cases.values())

    play(story)


def test_what_is_reported_before_there_is_a_store_is_written_when_there_is():
    """A child may die before the first has said where the store is."""

    async def story(office):
        early = Office()
        first = early.report()
        early.report()
        early.backend = early.calls._backend = office.backend
        early.open()
        await asyncio.sleep(1)
        [kept] = office.kept()
        assert (kept.id, kept.count) == (first, 2)

    play(story)


def test_what_was_reported_last_is_written_when_the_supervisor_ends():
    """Also what was still waiting for its turn; but an absent store is not waited for."""

    async def story(office):
        office.report()
        await asyncio.sleep(0.01)
        office.report(count=9)
        await office.shut()
        assert [kept.count for kept in office.kept()] == [10]

        other = Office()
        other.backend.away = True
        other.open()
        other.report()
        before = other.clock.boot()
        await asyncio.sleep(0)
        await other.shut()
        assert other.clock.boot() - before <= desk_module.LAST_WRITES

    play(story)


def test_one_that_a_person_forgot_stays_forgotten_and_the_next_is_a_new_one():
    """What grows is not brought back by its next write."""

    async def story(office):
        first = office.report()
        await asyncio.sleep(6)
        run_procedure(office.backend.run, forget_incidents(office.backend.verbs, [first]))
        office.report()
        await asyncio.sleep(6)
        assert office.kept() == ()
        second = office.report()
        await asyncio.sleep(6)
        assert [(kept.id, kept.count) for kept in office.kept()] == [(second, 1)]

    play(story)


def test_only_so_many_are_kept_and_only_for_so_long():
    """The oldest go first; that is looked for about once a minute, and every hour while nothing happens."""

    async def story(office):
        for number in range(20):
            now = office.clock.now()
            office.report(fingerprint=f"f{number}", at=now, last_at=now)
            await asyncio.sleep(1)
        assert len(office.kept()) > 5, "not at every write"
        await asyncio.sleep(60)
        assert [kept.fingerprint for kept in office.kept()] == ["f19", "f18", "f17", "f16", "f15"]
        looks = office.backend.looks
        await asyncio.sleep(1000)
        assert office.backend.looks == looks, "nothing happens, nothing is asked"
        await asyncio.sleep(2 * 3600)
        assert office.kept() == ()

    play(story, keep_incidents=5, keep_incidents_for=3600.0)


def test_secrets_of_the_url_and_in_texts_are_not_kept():
    """The supervisor knows the password of its store, and no evidence has it; nor what looks like one."""

    async def story(office):
        evidence = Evidence({"log": "tried s3cr3t/x and token=abc", "env": "s3cr3t%2Fx"})
        incident_id = office.report(an_incident(summary="no s3cr3t/x here,\n password=abc"), evidence)
        await asyncio.sleep(0.1)
        [kept] = office.kept()
        told = f"{kept} {office.evidence(incident_id)}"
        assert "s3cr3t" not in told
        assert "abc" not in told
        assert kept.summary == "no •••• here, password=••••"

    play(story, url="postgresql://shop:s3cr3t%2Fx@db/shop")


def test_secrets_of_the_first_are_removed_when_it_is_not_named_any_more():
    """The evidence is that of the first time, however many came before the store could be asked."""

    async def story(office):
        payload = b'{"args":{},"secret":{"pin":"hunter22"}}'
        office.backend.run(office.backend.verbs.enqueue([NewJob("job-0", "send_email", payload)]))
        office.backend.away = True
        first = office.report(evidence=Evidence({"log": "said hunter22"}), jobs=(a_job(0),))
        for number in range(1, 2 * MOST_JOBS):
            office.report(jobs=(a_job(number),))
        await asyncio.sleep(1)
        office.backend.away = False
        await asyncio.sleep(10)
        [kept] = office.kept()
        assert (kept.count, len(kept.jobs), kept.more_jobs) == (2 * MOST_JOBS, MOST_JOBS, MOST_JOBS)
        assert office.evidence(first) == {"log": f"said {MASK}"}

    play(story)


def test_reporting_never_raises(caplog):
    """Not even what cannot be an incident brings its supervisor down."""

    async def story(office):
        office.desk.report(an_incident(summary=None))
        office.report(summary="lone \ud800 surrogate", evidence=Evidence({"../../etc": "\ud800\0"}))
        await asyncio.sleep(0.1)
        [kept] = office.kept()
        assert office.evidence(kept.id) == {"etc": "?�"}

    play(story)
    assert "could not be taken in" in caplog.text
