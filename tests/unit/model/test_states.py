"""The table of moves is complete and consistent."""

import pytest

from standfast.model.states import CLAIMED, ENDINGS, FINAL, MOVES, RETURNS, WAITING, Move, State, settle


def test_every_state_is_of_one_kind() -> None:
    """Waiting, claimed and final states are all states, and none is two things."""
    assert set(State) == WAITING | CLAIMED | FINAL
    assert len(State) == len(WAITING) + len(CLAIMED) + len(FINAL)


def test_every_move_has_a_rule() -> None:
    """No move is left to the imagination of a store."""
    assert set(MOVES) == set(Move)
    assert all(rule.sources for rule in MOVES.values())


def test_endings_are_made_from_claims() -> None:
    """A worker ends its own claim, held or running, and leaves it by that."""
    assert {move for move in ENDINGS if not MOVES[move].sources >= CLAIMED} == set()
    assert {MOVES[move].target for move in ENDINGS} & CLAIMED == set()


def test_returns_are_the_endings_that_wait_again() -> None:
    """After a return the job waits; after any other ending it is final."""
    assert {move for move in ENDINGS if MOVES[move].target in WAITING} == RETURNS
    assert {move for move in ENDINGS if MOVES[move].target in FINAL} == ENDINGS - RETURNS


def test_only_failures_are_charged() -> None:
    """A release, a snooze or a cancellation costs no attempt."""
    assert {move for move, rule in MOVES.items() if rule.charges} == {Move.RETRY, Move.DIE}


def test_final_states_are_left_by_a_person_only() -> None:
    """Only requeue and discard lead out of a final state, and only out of dead."""
    leaving = {(move, state) for move, rule in MOVES.items() for state in rule.sources & FINAL}
    assert leaving == {(Move.REQUEUE, State.DEAD), (Move.DISCARD, State.DEAD)}


def test_every_state_can_be_reached_and_every_waiting_one_left() -> None:
    """No state is out of reach, and none that waits is a trap."""
    assert {rule.target for rule in MOVES.values()} == set(State)
    assert {state for state in WAITING if not any(state in rule.sources for rule in MOVES.values())} == set()


def test_the_table_cannot_be_changed() -> None:
    """The table is read-only."""
    with pytest.raises(TypeError):
        MOVES[Move.CLAIM] = MOVES[Move.START]  # type: ignore[index]


@pytest.mark.parametrize("move", sorted(ENDINGS))
def test_settle_leaves_an_ending_nobody_objects_to(move: Move) -> None:
    """Without a wish to cancel, an ending is recorded as it came."""
    assert settle(move, cancel_requested=False) is move


@pytest.mark.parametrize("move", sorted(ENDINGS))
def test_settle_turns_returns_into_cancellations(move: Move) -> None:
    """With a wish to cancel, the job does not wait again; an end of its own stands."""
    expected = Move.CANCEL if move in RETURNS else move
    assert settle(move, cancel_requested=True) is expected
    assert settle(move, cancel_requested=True, last_chance=True) is expected


@pytest.mark.parametrize("move", sorted(ENDINGS))
def test_settle_lets_no_replaced_job_wait_again(move: Move) -> None:
    """A job that another is to replace ends as one that was asked to cancel does, asked or not."""
    expected = Move.CANCEL if move in RETURNS else move
    assert settle(move, cancel_requested=False, replaced=True) is expected
    assert settle(move, cancel_requested=True, replaced=True) is expected
    assert settle(move, cancel_requested=False, replaced=True, last_chance=True) is expected


@pytest.mark.parametrize("move", sorted(ENDINGS))
def test_settle_gives_no_last_chance_back(move: Move) -> None:
    """A job that has started its only attempt cannot be released: it dies. Any other ending stands."""
    expected = Move.DIE if move is Move.RELEASE else move
    assert settle(move, cancel_requested=False, last_chance=True) is expected
