"""What is right and what is wrong about a job's starts, from the ledger and the store's history."""

import pytest

from game.evidence import Evidence, Held, Played, Run, Stint
from game.judging import judge
from game.result import delays_of

DUE = 1_000.0
KILLED = Stint("1.1", started_at=900.0, ended_at=1_000.05, killed=True)
STOPPED = Stint("1.1", started_at=900.0, ended_at=1_000.05, killed=False)
OTHER = Stint("2.1", started_at=900.0, ended_at=1_100.0, killed=False)


def job(*claims, completed=True, run_at=DUE):
    return Played(0, run_at, completed, DUE + 0.1 if completed else None, claims)


def first(end=None, **how):
    return Run(**{"job": 0, "fence": 1, "instance": "1.1", "start": DUE + 0.001, "end": end, **how})


def second(**how):
    return Run(**{"job": 0, "fence": 2, "instance": "2.1", "start": DUE + 4.0, "end": DUE + 4.083, **how})


LOST = Held(1, None, DUE + 3.5, "vanished")
DONE = Held(2, DUE + 4.0, DUE + 4.1, "complete")
LATER = Held(2, None, DUE + 4.6, "complete")
ONLY = Held(1, DUE + 0.001, DUE + 0.09, "complete")
BOTH = (KILLED, OTHER)


def ended(after, how):
    """Return a first claim that ended so many seconds after the job's time."""
    return Held(1, None, DUE + after, how)


def judged(played, *runs, stints=(KILLED, OTHER)):
    return judge(Evidence(900.0, [played], list(runs), list(stints), {}))


def wrong(judgement):
    return {name for name in ("unfinished", "early", "late", "restarted", "doubled") if getattr(judgement, name)}


def test_a_job_that_ran_once_is_right():
    assert wrong(judged(job(ONLY), first(end=DUE + 0.084))) == set()


def test_a_job_that_never_ran_is_unfinished():
    assert wrong(judged(job(completed=False))) == {"unfinished"}


def test_a_job_that_is_said_to_be_completed_and_never_ran_is_wrong():
    assert wrong(judged(job(ONLY))) == {"doubled"}
    assert wrong(judged(job(ONLY), first(end=None))) == {"doubled"}


class TestEarly:
    def test_the_real_start_counts_not_the_end(self):
        assert wrong(judged(job(ONLY), first(start=DUE - 0.001, end=DUE + 0.082))) == {"early"}

    def test_a_microsecond_is_the_finest_time_there_is(self):
        assert wrong(judged(job(ONLY), first(start=DUE - 0.9e-6, end=DUE + 0.083))) == set()
        assert wrong(judged(job(ONLY), first(start=DUE - 2e-6, end=DUE + 0.083))) == {"early"}

    def test_of_several_starts_any(self):
        early = first(start=DUE - 1.0)
        assert "early" in wrong(judged(job(LOST, DONE), early, second()))


class TestLate:
    def test_thirty_seconds_until_the_work_is_done(self):
        assert wrong(judged(job(ONLY), first(end=DUE + 30.0))) == set()
        assert wrong(judged(job(ONLY), first(end=DUE + 30.001))) == {"late"}

    def test_of_several_runs_the_last(self):
        late = second(end=DUE + 31.0)
        assert "late" in wrong(judged(job(LOST, DONE), first(), late))


class TestStartedAgain:
    def test_a_kill_is_an_excuse(self):
        assert wrong(judged(job(LOST, DONE), first(), second())) == {"restarted"}

    def test_also_if_the_work_was_done_but_not_yet_stored(self):
        assert wrong(judged(job(LOST, DONE), first(end=DUE + 0.04), second())) == {"restarted"}

    @pytest.mark.parametrize(
        ("claims", "runs", "stints"),
        [
            pytest.param((LOST, DONE), (first(), second()), (STOPPED, OTHER), id="nobody was killed"),
            pytest.param((ended(3.5, "release"), DONE), (first(), second()), BOTH, id="given back, not lost"),
            pytest.param((ended(3.5, None), DONE), (first(), second()), BOTH, id="nobody says how it ended"),
            pytest.param((Held(1, None, None, None), DONE), (first(), second()), BOTH, id="two valid claims"),
            pytest.param((ended(4.5, "vanished"), LATER), (first(), second()), BOTH, id="lost after the second"),
            pytest.param((LOST, DONE), (first(end=DUE + 4.01), second()), BOTH, id="at the same time"),
            pytest.param(
                (ended(0.02, "vanished"), LATER), (first(), second(start=DUE + 0.04)), BOTH, id="before the kill"
            ),
            pytest.param((LOST,), (first(), second(fence=1)), BOTH, id="under the same claim"),
            pytest.param((LOST, DONE), (first(fence=2), second(fence=1)), BOTH, id="under an older claim"),
            pytest.param((), (first(), second(fence=1)), BOTH, id="a store without claims"),
        ],
    )
    def test_nothing_else_is(self, claims, runs, stints):
        assert "doubled" in wrong(judged(job(*claims), *runs, stints=stints))

    def test_a_job_is_completed_once(self):
        assert wrong(judged(job(ended(-5.0, "complete"), DONE), second())) == {"doubled"}

    def test_the_claim_that_completed_it_is_the_one_under_which_it_ran(self):
        assert wrong(judged(job(ended(3.5, "release"), DONE), first(end=DUE + 0.084))) == {"doubled"}

    def test_claims_that_overlap_are_wrong_even_if_one_of_them_never_started(self):
        never_started = Held(1, None, DUE + 4.5, "release")
        assert wrong(judged(job(never_started, DONE), second())) == {"doubled"}

    def test_a_claim_that_was_given_back_before_its_start_is_nothing_to_speak_of(self):
        given_back = Held(1, None, DUE - 3.0, "release")
        assert wrong(judged(job(given_back, DONE), second())) == set()


def test_delays_are_counted_to_the_end_of_the_last_run():
    evidence = Evidence(900.0, [job(LOST, DONE)], [first(), second()], [KILLED, OTHER], {})
    assert delays_of(evidence) == {0: pytest.approx(4_083.0)}


def test_who_was_never_completed_has_no_delay():
    evidence = Evidence(900.0, [job(completed=False)], [first(end=DUE + 0.1)], [OTHER], {})
    assert delays_of(evidence) == {}
