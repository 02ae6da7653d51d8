"""Who pays for a dead worker: the table, row by row."""

import pytest
from msgspec.structs import replace

from standfast.model.crash import CRASHES_ALONE_LIMIT, OF_HOST, Death, DeathKind, Orphan, aftermath, group_limit
from standfast.model.job import ClaimRef
from standfast.model.states import State

ONE = Orphan(
    ClaimRef("one", 4), State.RUNNING, attempt=1, crashes=0, max_attempts=5, group=0, cancel_requested=False
)
TWO = replace(ONE, ref=ClaimRef("two", 1))
HELD = replace(ONE, ref=ClaimRef("held", 2), state=State.HELD)
LAST_CHANCE = replace(ONE, ref=ClaimRef("last", 1), attempt=0, max_attempts=1)

Row = tuple[State, str, int, int, int]


def _row(death: Death, *orphans: Orphan) -> list[Row]:
    fates = aftermath(death, orphans)
    assert [fate.ref for fate in fates] == [orphan.ref for orphan in orphans]
    return [(fate.state, fate.how, fate.attempt, fate.crashes, fate.group) for fate in fates]


def _crash(*started: Orphan) -> Death:
    return Death(DeathKind.CRASHED, frozenset(orphan.ref for orphan in started))


STOPPED = Death(DeathKind.STOPPED, frozenset({ONE.ref}))
VANISHED = Death(DeathKind.VANISHED)
UNTOUCHED = (State.READY, "release", 1, 0, 0)


def test_a_stop_charges_nobody() -> None:
    """What an orderly stop left goes back as it was, marked running or not."""
    assert _row(STOPPED, ONE, HELD) == [UNTOUCHED, UNTOUCHED]


def test_a_crash_charges_the_one_that_ran() -> None:
    """One alone is charged and next runs alone; what was held is untouched."""
    assert _row(_crash(ONE), ONE, HELD) == [(State.READY, "crashed", 2, 1, 1), UNTOUCHED]


def test_a_noted_start_counts_before_the_store_knows() -> None:
    """A job that started and was not yet marked running is charged all the same."""
    assert _row(_crash(HELD), HELD) == [(State.READY, "crashed", 2, 1, 1)]


def test_of_several_each_is_a_suspect() -> None:
    """Several that ran are each suspected, and none is charged."""
    suspected = (State.READY, "suspected", 1, 1, 1)
    assert _row(_crash(ONE, TWO), ONE, TWO, HELD) == [suspected, suspected, UNTOUCHED]


def test_a_last_chance_once_marked_never_starts_again() -> None:
    """A job with one attempt that was marked running is dead, however many ran beside it."""
    dead = (State.DEAD, "crashed", 1, 1, 1)
    assert _row(_crash(LAST_CHANCE, ONE), LAST_CHANCE, ONE) == [dead, (State.READY, "suspected", 1, 1, 1)]


@pytest.mark.parametrize("kind", [DeathKind.STOPPED, DeathKind.CRASHED])
def test_a_last_chance_is_not_given_back(kind: DeathKind) -> None:
    """Marked running, it is dead even if its worker stopped in order or noted no start; held, it goes back."""
    held = replace(LAST_CHANCE, state=State.HELD)
    assert _row(Death(kind), LAST_CHANCE) == [(State.DEAD, "release", 1, 0, 0)]
    assert _row(Death(kind), held) == [(State.READY, "release", 0, 0, 0)]


def test_a_crowd_is_halved() -> None:
    """Whoever ran with others runs with half of them at most next, and of 256 the ninth to die is alone."""
    for many in range(2, 257):
        together, deaths = many, 1
        while together > 1:
            crowd = [replace(ONE, ref=ClaimRef(str(number), 1), crashes=deaths) for number in range(together)]
            fates = aftermath(_crash(*crowd), crowd)
            (size,) = {fate.group for fate in fates}
            assert 2 * size <= together < 4 * size
            assert {fate.attempt for fate in fates} == {1}
            together, deaths = size, deaths + 1
        assert deaths <= 9
    assert aftermath(_crash(ONE), [ONE])[0].attempt == 2


def test_the_loss_of_a_host_is_no_suspicion() -> None:
    """What a vanished worker ran or held is noted once, and forgiven: also one that was alone there."""
    forgiven = (State.READY, "vanished", 1, 1, 0)
    assert _row(VANISHED, ONE) == [forgiven]
    assert _row(VANISHED, ONE, TWO, HELD) == [forgiven] * 3


def test_who_loses_its_host_again_is_a_suspect() -> None:
    """Of those alone that were hit before; each in a group of hosts, until one is alone and is charged."""
    one, two = replace(ONE, crashes=1), replace(TWO, crashes=1)
    again = (State.READY, "vanished", 1, 2, OF_HOST + 1)
    assert _row(VANISHED, one, two, HELD) == [again, again, (State.READY, "vanished", 1, 1, 0)]
    assert _row(VANISHED, one) == [again]
    found = replace(ONE, crashes=2, group=OF_HOST + 1)
    assert _row(VANISHED, found) == [(State.READY, "vanished", 2, 3, OF_HOST + 1)]
    group = [replace(found, ref=ClaimRef(str(number), 1), group=OF_HOST + 4) for number in range(4)]
    assert _row(VANISHED, *group) == [(State.READY, "vanished", 1, 3, OF_HOST + 2)] * 4


def test_a_suspect_of_a_crash_that_loses_its_host_keeps_its_group() -> None:
    """The loss of a host says nothing about who brought the process down; but from now on hosts are in question."""
    suspect = replace(ONE, crashes=1, group=8)
    assert _row(VANISHED, suspect) == [(State.READY, "vanished", 1, 2, OF_HOST + 8)]
    alone = replace(ONE, crashes=1, group=1)
    assert _row(VANISHED, alone) == [(State.READY, "vanished", 1, 2, OF_HOST + 1)]


def test_a_job_that_takes_its_hosts_down_comes_to_an_end() -> None:
    """However often it takes hosts or processes down in turn: it is found, and charged until it is dead."""
    for kinds in ((VANISHED,), (VANISHED, _crash(ONE)), (_crash(ONE), VANISHED, VANISHED)):
        orphan, deaths = ONE, 0
        while orphan.attempt < orphan.max_attempts:
            fate, *_ = aftermath(kinds[deaths % len(kinds)], [orphan, *_others(orphan)])
            if fate.state is State.DEAD:
                break
            orphan = replace(orphan, attempt=fate.attempt, crashes=fate.crashes, group=fate.group)
            deaths += 1
            assert deaths < 50


def _others(orphan: Orphan) -> list[Orphan]:
    """Return as many others as may run beside it."""
    together = group_limit(orphan.group) or 256
    return [replace(orphan, ref=ClaimRef(str(number), 1)) for number in range(together - 1)]


@pytest.mark.parametrize("death", [_crash(ONE), VANISHED])
def test_the_last_attempt_is_the_end(death: Death) -> None:
    """A charge that uses up the attempts makes the job dead."""
    ((state, _, attempt, _, _),) = _row(death, replace(ONE, attempt=4, group=OF_HOST + 1))
    assert (state, attempt) == (State.DEAD, 5)


def test_crashes_alone_are_limited() -> None:
    """A job that killed a process of its own for the third time is dead with attempts left."""
    patient = replace(ONE, max_attempts=100)
    before = replace(patient, crashes=5, crashes_alone=CRASHES_ALONE_LIMIT - 2)
    assert _row(_crash(ONE), before)[0][0] is State.READY
    hopeless = replace(patient, crashes=5, crashes_alone=CRASHES_ALONE_LIMIT - 1)
    assert _row(_crash(ONE), hopeless)[0][0] is State.DEAD
    assert _row(VANISHED, hopeless)[0][0] is State.READY


@pytest.mark.parametrize("death", [STOPPED, _crash(ONE), VANISHED])
def test_a_wish_to_cancel_is_kept(death: Death) -> None:
    """A job that was asked to cancel does not come back."""
    assert _row(death, replace(ONE, cancel_requested=True))[0][0] is State.CANCELLED


@pytest.mark.parametrize("death", [STOPPED, _crash(ONE), VANISHED])
def test_a_replaced_job_does_not_come_back(death: Death) -> None:
    """A job whose place another waits to take is given up, on its last attempt or chance too."""
    assert _row(death, replace(ONE, replaced=True))[0][0] is State.CANCELLED
    assert _row(death, replace(ONE, replaced=True, attempt=4))[0][0] is State.CANCELLED
    assert _row(death, replace(LAST_CHANCE, replaced=True))[0][0] is State.CANCELLED


def test_cancellation_goes_before_death() -> None:
    """A job that someone asked to cancel is no dead letter, even if this was its last attempt or chance."""
    orphan = replace(ONE, attempt=4, cancel_requested=True)
    assert _row(_crash(ONE), orphan)[0][0] is State.CANCELLED
    assert _row(STOPPED, replace(LAST_CHANCE, cancel_requested=True))[0][0] is State.CANCELLED


def test_a_requeue_gives_new_chances() -> None:
    """With `crashes` reset, the crashes alone before that do not count any more."""
    requeued = replace(ONE, max_attempts=100, crashes=0, crashes_alone=CRASHES_ALONE_LIMIT)
    assert _row(_crash(ONE), requeued)[0][0] is State.READY


def test_starts_of_others_do_not_count() -> None:
    """A note about a claim that the worker no longer has makes nobody a suspect."""
    assert _row(_crash(ONE, TWO), ONE) == [(State.READY, "crashed", 2, 1, 1)]


def test_suspicion_is_not_lifted() -> None:
    """A suspect stays one, whatever its worker died of."""
    suspect = replace(HELD, group=4)
    for death in (STOPPED, _crash(), VANISHED):
        assert group_limit(aftermath(death, [suspect])[0].group) == 4


def test_nothing_left_behind() -> None:
    """A worker that had nothing leaves nothing."""
    assert aftermath(_crash(ONE), []) == []
