"""The scores, the board and the verdicts, exactly."""

import pytest

from game.board import Place, Standing, published
from game.counted.journal import Call
from game.judging import Judgement
from game.scoring import Cost, Delays, count_cost, measure_delays
from game.timetable import Mode
from game.verdicts import give_verdicts, most_cost


def calls(verb, times=1, **how):
    return [Call(verb, at=0.0, pid=1, **how) for _ in range(times)]


class TestCost:
    @pytest.mark.parametrize(
        ("made", "cost", "with_membership"),
        [
            ([], 0, 0),
            (calls("claim", jobs=20), 100, 100),
            (calls("claim", jobs=0), 100, 100),
            (calls("claim", took=None, error="CancelledError"), 100, 100),
            (calls("finish", jobs=9), 0, 0),
            (calls("finish", jobs=9, stale=2), 20, 20),
            (calls("start", jobs=3, stale=1), 10, 10),
            (calls("get", jobs=1), 1, 1),
            (calls("glance", jobs=7), 7, 7),
            (calls("glance", jobs=0), 1, 1),
            (calls("enqueue"), 0, 0),
            (calls("beat", 3) + calls("register") + calls("bury", jobs=5), 0, 5),
            (calls("list", 2, jobs=4), 200, 200),
            (calls("look", 5, jobs=1), 5, 5),
            (calls("lock", 3, jobs=1) + calls("lock", 2, jobs=1, stale=1), 20, 20),
            (calls("complete", jobs=1) + calls("create"), 0, 0),
        ],
    )
    def test_the_price_list(self, made, cost, with_membership):
        counted = count_cost(made)
        assert (counted.cost, counted.with_membership) == (cost, with_membership)

    def test_a_call_without_a_price_is_an_error(self):
        with pytest.raises(KeyError, match="list_jobs"):
            count_cost(calls("list_jobs"))

    @pytest.mark.parametrize("run", published(), ids=lambda run: f"{run.runner}-{run.mode}")
    def test_the_published_scores_come_out(self, run):
        assert Cost(run.lists, run.lost, run.reads, 0).cost == run.cost
        assert run.mean + run.stdev == pytest.approx(run.efficient, abs=0.011)


class TestDelays:
    def test_efficient_is_the_mean_plus_the_sample_deviation(self):
        delays = measure_delays([83.0, 85.0, 87.0, 89.0])
        assert delays.mean == 86.0
        assert delays.stdev == pytest.approx((20 / 3) ** 0.5)  # of a sample: three, not four, below the line
        assert delays.efficient == delays.mean + delays.stdev
        assert (delays.median, delays.longest) == (86.0, 89.0)

    def test_one_or_none(self):
        assert measure_delays([]) is None
        assert measure_delays([90.0]) == Delays(90.0, 0.0, 90.0, 90.0, 90.0)


class TestBoard:
    def test_all_published_runs_are_there(self):
        assert len(published()) == 99
        assert sum(run.keeps_the_rules for run in published()) == 86

    def test_those_that_broke_the_rules_rank_nobody(self):
        early = [run for run in published() if run.efficient < 0]
        assert early
        assert not any(run.keeps_the_rules for run in early)

    def test_a_run_on_both_floors(self):
        standing = Standing.of("WORKERS05", 6_600, 83.0)
        assert standing.efficient == Place(1, 87)
        assert standing.cost == Place(4, 87)  # three cheaper ones were late, by a second and more
        assert (standing.cost_in_mode, standing.efficient_in_mode) == (Place(1, 9), Place(1, 9))
        assert standing.better_in_both == 0

    def test_a_published_run_stands_where_it_stood(self):
        run = next(run for run in published() if (run.runner, run.mode) == ("andrew0928", "WORKERS09"))
        standing = Standing.of(run.mode, run.cost, run.efficient)
        assert standing.efficient.rank == 1
        assert standing.better_in_both == 0

    def test_a_poor_run(self):
        standing = Standing.of("WORKERS04", 1_000_000, 40_000.0)
        assert standing.cost == Place(87, 87)
        assert standing.better_in_both == 86

    def test_nobody_has_published_kills(self):
        standing = Standing.of("KILL", 7_000, 100.0)
        assert standing.cost_in_mode is standing.efficient_in_mode is None


class TestVerdicts:
    CLEAN = Judgement(jobs=10, unfinished=(), early=(), late=(), restarted=(), doubled=())
    FAST = Delays(84.0, 2.0, 84.0, 88.0, 90.0)

    def verdicts(self, mode=Mode.WORKERS, judged=CLEAN, lists=66, delays=FAST):
        given = give_verdicts(mode, 660.0, judged, Cost(lists, 0, 0, 500), delays)
        return {verdict.name: verdict for verdict in given}

    def test_the_bounds_of_the_real_game(self):
        assert most_cost(660.0) == 7_000
        assert self.verdicts(lists=70)["COST"].holds
        assert not self.verdicts(lists=71)["COST"].holds
        assert self.verdicts(delays=Delays(88.0, 2.0, 0, 0, 0))["EFFICIENT"].holds
        assert not self.verdicts(delays=Delays(88.0, 2.001, 0, 0, 0))["EFFICIENT"].holds

    def test_the_bounds_are_no_rules(self):
        assert {name for name, verdict in self.verdicts().items() if not verdict.rule} == {"COST", "EFFICIENT"}

    @pytest.mark.parametrize("mode", [Mode.HATEST, Mode.KILL])
    def test_who_comes_and_goes_has_rules_alone(self, mode):
        assert set(self.verdicts(mode)) == {"complete", "once", "early", "late"}

    @pytest.mark.parametrize(
        ("wrong", "name"), [("unfinished", "complete"), ("doubled", "once"), ("early", "early"), ("late", "late")]
    )
    def test_each_rule_fails_alone(self, wrong, name):
        judged = Judgement(**{"jobs": 10, **dict.fromkeys(TestVerdicts.KINDS, ()), wrong: (3, 4)})
        failed = {each: verdict.says for each, verdict in self.verdicts(judged=judged).items() if not verdict.holds}
        assert failed.keys() == {name}
        assert failed[name].startswith("2 jobs ")

    KINDS = ("unfinished", "early", "late", "restarted", "doubled")
