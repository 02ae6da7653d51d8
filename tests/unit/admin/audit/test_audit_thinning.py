"""Who may not do something, and tries it again and again, is seen in the trail and does not fill it."""

import pytest

from dashboard_stage import open_stage
from standfast.admin.audit_trail import FORGIVEN, MOST_KEPT, OTHERS, RepeatSampler, is_told
from standfast.admin.operation import NotAllowedError, Role
from standfast.errors import JobNotFoundError


@pytest.fixture
def stage():
    with open_stage() as opened:
        yield opened


def refused(stage, times, operation="queues.pause", role=Role.VIEWER):
    for _ in range(times):
        with pytest.raises(NotAllowedError):
            stage.act(operation, role, name="mail")


def errors(stage):
    return [entry.error and str(entry.error) for entry in stage.read("audit.list", limit=200).entries]


def test_what_is_refused_often_is_written_down_seldom(stage):
    """With how often it was; what others did stays to be read."""
    stage.act("queues.pause", name="mail")
    refused(stage, 250)
    says = "queues.pause is for operators, and ada is a viewer"
    assert errors(stage) == [f"{says}; 100 times by now", f"{says}; 10 times by now", says, None]


def test_each_operation_and_each_person_is_counted_apart(stage):
    refused(stage, 3)
    refused(stage, 3, "queues.resume")
    refused(stage, 3, "schedules.delete", Role.OPERATOR)
    assert len(errors(stage)) == 3


def test_a_dashboard_that_only_shows_is_not_filled_either():
    with open_stage(read_only=True) as stage:
        refused(stage, 20, role=Role.ADMIN)
        assert len(errors(stage)) == 2


def test_what_somebody_may_do_and_cannot_be_done_is_always_written_down(stage):
    for _ in range(3):
        with pytest.raises(JobNotFoundError):
            stage.act("jobs.retry", id="nix")
    assert len(errors(stage)) == 3


def test_after_a_while_it_is_news_again():
    now = 0.0
    thinning = RepeatSampler(lambda: now)
    assert [thinning.count("a")[1] for _ in range(3)] == [1, 2, 3]
    now = FORGIVEN
    assert thinning.count("a") == ("a", 1)


def test_too_many_are_counted_together():
    thinning = RepeatSampler(lambda: 0.0)
    counted = [thinning.count(number) for number in range(MOST_KEPT + 3)]
    assert counted[MOST_KEPT - 1 :] == [(MOST_KEPT - 1, 1), (OTHERS, 1), (OTHERS, 2), (OTHERS, 3)]
    assert [times for times in range(1, 1001) if is_told(times)] == [1, 10, 100, 1000]
