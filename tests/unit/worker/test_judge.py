"""What a handler did, and how its claim ends."""

from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from msgspec.structs import replace

from standfast.model.job import Claim, ClaimRef, Ending
from standfast.model.outcomes import Cancel, Discard, Fail, Outcome, Retry, Snooze, Success
from standfast.model.policy import declare_policy
from standfast.model.states import Move, Reason
from standfast.worker.completer import TRACEBACK_LIMIT, Judge, describe

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CLAIM = Claim(ClaimRef("id", 7), "task", 1, b"", "default", 0, NOW, attempt=0, crashes=0, max_attempts=3)


def judge(claim: Claim = CLAIM, **policy) -> Judge:
    return Judge(claim, declare_policy(**policy), NOW, Random(1))


def both_ways(outcome: Outcome, claim: Claim = CLAIM) -> Ending:
    """Return the ending, the same whether the outcome was returned or raised."""
    returned, raised = judge(claim).returned(outcome), judge(claim).raised(outcome)
    assert (returned.move, returned.reason, returned.result) == (raised.move, raised.reason, raised.result)
    return returned


def test_a_value_is_success() -> None:
    """What a handler returns is stored."""
    ending = judge().returned({"sent": 3})
    assert (ending.move, ending.result, ending.started_at) == (Move.COMPLETE, b'{"sent":3}', NOW)
    assert both_ways(Success(5)).result == b"5"


def test_an_exception_is_retried_after_the_backoff() -> None:
    """A failure charges and waits."""
    ending = judge(backoff=10).raised(ValueError("no"))
    assert ending.move is Move.RETRY
    assert timedelta(seconds=10) <= ending.delay <= timedelta(seconds=20)
    assert str(ending.failure) == "ValueError: no"


def test_the_last_attempt_dies() -> None:
    """With no attempt left, a failure is final, also one that asks for a retry."""
    last = replace(CLAIM, attempt=2)
    assert judge(last).raised(ValueError()).move is Move.DIE
    assert both_ways(Retry("again"), last).move is Move.DIE


@pytest.mark.parametrize(
    ("outcome", "move", "reason"),
    [
        (Retry("busy", delay=7), Move.RETRY, None),
        (Snooze(30), Move.SNOOZE, None),
        (Discard(), Move.CANCEL, Reason.DISCARDED),
        (Discard("stale"), Move.CANCEL, Reason.DISCARDED),
        (Cancel("order withdrawn"), Move.CANCEL, "order withdrawn"),
        (Fail("no such user"), Move.DIE, None),
    ],
)
def test_outcomes_may_be_returned_or_raised(outcome: Outcome, move: Move, reason: str | None) -> None:
    """The handler decides, and both ways of saying it mean the same."""
    ending = both_ways(outcome)
    assert (ending.move, ending.reason) == (move, reason)


def test_a_given_delay_overrules_the_backoff() -> None:
    """Retry and Snooze take seconds or a span; a negative one means now."""
    assert judge().returned(Retry(delay=7)).delay == timedelta(seconds=7)
    assert judge().returned(Snooze(timedelta(minutes=1))).delay == timedelta(minutes=1)
    assert judge().returned(Snooze(-5)).delay == timedelta()


def test_retry_on_and_discard_on() -> None:
    """discard_on wins; what retry_on does not name is dead at once."""
    chosen = judge(retry_on=(OSError,), discard_on=(FileNotFoundError,))
    assert chosen.raised(ConnectionError()).move is Move.RETRY
    assert chosen.raised(FileNotFoundError()).move is Move.CANCEL
    assert chosen.raised(ValueError()).move is Move.DIE


def test_a_result_that_cannot_be_stored_is_dead_with_the_reason() -> None:
    """Running it again would not help."""
    ending = judge().returned(object())
    assert ending.move is Move.DIE
    assert "object" in str(ending.failure)


def test_a_timeout_names_the_limit() -> None:
    """The error tells how long it may run."""
    assert "timeout of 30 s" in str(judge(timeout=30).timed_out().failure)


def test_what_must_not_start_twice_is_not_given_back() -> None:
    """max_attempts=1 means at most once: interrupted, it is dead; put off before its start, it is not."""
    once = judge(replace(CLAIM, max_attempts=1))
    assert once.released().move is Move.DIE
    assert once.put_off().move is Move.SNOOZE
    assert judge().released().move is Move.RELEASE


def test_a_long_traceback_keeps_its_end() -> None:
    """The last lines say most."""

    def deep(depth: int) -> None:
        if depth:
            deep(depth - 1)
        message = "x" * TRACEBACK_LIMIT + "the end"
        raise ValueError(message)

    with pytest.raises(ValueError, match="the end") as caught:
        deep(20)
    failure = describe(caught.value)
    assert len(failure.traceback) == TRACEBACK_LIMIT
    assert failure.traceback.rstrip().endswith("the end")


class Unspeakable(Exception):  # noqa: N818 - it is none of ours
    """Cannot be written down: neither its words nor its notes."""

    def __str__(self) -> str:
        raise KeyboardInterrupt

    @property
    def __notes__(self) -> list[str]:
        raise RuntimeError("no notes")


def fail_unspeakably():
    raise Unspeakable


def raised_by(fail):
    with pytest.raises(Unspeakable) as caught:
        fail()
    return caught.value


def test_an_exception_that_cannot_be_written_down_is_a_failure_like_any_other():
    """Its own code must not keep the attempt from ending."""
    ending = judge().raised(raised_by(fail_unspeakably))
    assert ending.move is Move.RETRY
    assert ending.failure is not None
    assert ending.failure.type.endswith("Unspeakable")
    assert "cannot" in ending.failure.message
    assert "test_judge" in ending.failure.traceback
