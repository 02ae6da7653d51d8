"""Incidents in each store: written once, listed in order, forgotten for good, whoever comes in between."""

from datetime import timedelta

import pytest
from reporting import NOON, STACKS, an_incident

from empty_stores import STORES
from standfast.model.incidents import Evidence
from standfast.model.records import Change, Kind
from standfast.observe.incidents import (
    Retention,
    changes_of,
    forget_incidents,
    forget_outdated,
    list_incidents,
    read_evidence,
    write_incident,
)
from standfast.settings import Settings
from standfast.stores.verb import run_procedure
from standfast.testing.clock import FakeClock


@pytest.fixture(params=STORES)
def backend(request, tmp_path):
    made = STORES[request.param](request, tmp_path, FakeClock())
    yield made
    made.close()


@pytest.fixture
def ask(backend):
    """Run a procedure of the book."""
    return lambda procedure, *given: run_procedure(backend.run, procedure(backend.verbs, *given))


def at(minutes):
    moment = NOON + timedelta(minutes=minutes)
    return {"at": moment, "last_at": moment}


def test_what_is_written_is_read_back_the_newest_first(ask):
    """With its evidence, which is read when asked for."""
    old, new = an_incident(**at(1)), an_incident(**at(2), count=3)
    ask(write_incident, new, STACKS)
    ask(write_incident, old)
    assert ask(list_incidents) == (new, old)
    assert ask(read_evidence, new.id) == STACKS
    assert ask(read_evidence, old.id) == Evidence()
    ask(write_incident, an_incident(id=old.id, **at(3)))
    assert [incident.id for incident in ask(list_incidents)] == [old.id, new.id]


def test_a_large_one_fits(ask):
    """As large as evidence may be, in every store."""
    incident, evidence = an_incident(), Evidence({"log": "ü\n" * 80_000})
    ask(write_incident, incident, evidence)
    assert ask(read_evidence, incident.id) == evidence


def test_a_wish_that_is_repeated_counts_once(ask, backend):
    """Its answer was lost: repeated as it was, it is answered as if it were new; a later one goes before it."""
    incident = an_incident()
    wish = changes_of(incident, STACKS, 0)
    assert backend.run(backend.verbs.change_records(wish)) == (True, True)
    assert backend.run(backend.verbs.change_records(wish)) == (True, True)
    [record] = backend.run(backend.verbs.records(Kind.INCIDENT))
    assert record.version == 1
    ask(write_incident, an_incident(id=incident.id, count=5))
    assert backend.run(backend.verbs.change_records(wish))[-1] is False
    assert [kept.count for kept in ask(list_incidents)] == [5]


def test_forgetting_takes_the_evidence_along_however_many(ask, backend):
    """Those named and no others; what is not there is no error."""
    made = [an_incident(**at(number)) for number in range(120)]
    for incident in made:
        ask(write_incident, incident, STACKS)
    ask(write_incident, an_incident(id=made[1].id, count=2))
    ask(forget_incidents, [*(incident.id for incident in made[1:]), "unknown"])
    assert ask(list_incidents) == (made[0],)
    assert [record.name for record in backend.run(backend.verbs.records(Kind.EVIDENCE))] == [made[0].id]


def test_what_is_outdated_is_forgotten(ask, backend):
    """Too many and too old ones; how many is told."""
    made = [an_incident(**at(number)) for number in range(60)]
    for incident in made:
        ask(write_incident, incident, STACKS)
    keeping = Retention.of(Settings(keep_incidents=10, keep_incidents_for=5 * 60))
    assert ask(forget_outdated, keeping, NOON + timedelta(minutes=60)) == 55
    assert ask(list_incidents) == tuple(reversed(made[55:]))
    assert len(backend.run(backend.verbs.records(Kind.EVIDENCE))) == 5
    assert ask(forget_outdated, keeping, NOON + timedelta(minutes=60)) == 0


def test_what_another_release_wrote_is_passed_over(ask, backend):
    """A list that one record can break would be missed in the worst hour."""
    ask(write_incident, an_incident(id="good"))
    odd = [Change(kind, "odd", 0, f"t-{kind}", b'{"of": "the future"') for kind in (Kind.INCIDENT, Kind.EVIDENCE)]
    backend.run(backend.verbs.change_records(odd))
    assert [incident.id for incident in ask(list_incidents)] == ["good"]
    assert "cannot be read" in ask(read_evidence, "odd").parts["unreadable"]
    ask(forget_incidents, ["odd"])
    assert backend.run(backend.verbs.records(Kind.EVIDENCE)) == ()


@pytest.mark.parametrize(("procedure", "left"), [(forget_incidents, 0), (forget_outdated, 1)])
def test_one_that_grows_while_it_is_forgotten(ask, backend, procedure, left):
    """A person's word counts, whatever happens meanwhile; what is only too old is spared if it happens again."""
    incident = an_incident()
    ask(write_incident, incident, STACKS)
    grown = []

    def run(verb):
        if verb.name == "change_records" and not grown:
            grown.append(verb)
            ask(write_incident, an_incident(id=incident.id, count=2))
        return backend.run(verb)

    old = (Retention.of(Settings(keep_incidents_for=60)), NOON + timedelta(hours=1))
    run_procedure(run, procedure(backend.verbs, *(old if procedure is forget_outdated else ([incident.id],))))
    assert len(ask(list_incidents)) == left
    assert len(ask(read_evidence, incident.id).parts) == left * len(STACKS.parts)
