"""The workload and the timetable are those of the exercise, and the same for a seed."""

from collections import Counter
from itertools import pairwise

import pytest

from game.rules import PREPARE
from game.timetable import Mode, leaving, make_timetable
from game.workload import LIVE_AHEAD, make_workload

SEEDS = range(20)


class TestTheRealGame:
    def test_its_span(self):
        work = make_workload(600, seed=1)
        assert (work.since, work.until, work.end) == (30.0, 630.0, 660.0)

    def test_every_three_seconds_one_job(self):
        work = make_workload(600, seed=1)
        steady = {30.0 + 3 * number for number in range(1, 201)}
        assert steady <= set(work.planned)

    def test_every_thirteen_seconds_twenty_at_once(self):
        times = Counter(make_workload(600, seed=1).planned)
        bursts = [30.0 + 13 * number for number in range(1, 48)]
        assert all(times[at] >= 20 for at in bursts)
        assert [at for at, jobs in sorted(times.items()) if jobs >= 20] == bursts

    @pytest.mark.parametrize("seed", SEEDS)
    def test_the_random_streams_have_gaps_of_one_to_three_seconds(self, seed):
        work = make_workload(600, seed)
        periodic = Counter([30.0 + 3.0 * number for number in range(1, 201)])
        periodic += Counter([30.0 + 13.0 * number for number in range(1, 48) for _ in range(20)])
        scattered = sorted((Counter(work.planned) - periodic).elements())
        for stream, since, until in ((scattered, 30.0, 630.0), (work.live, 0.0, 620.0)):
            gaps = [after - before for before, after in pairwise([since, *stream])]
            assert 0.999 <= min(gaps) <= max(gaps) <= 3.0
            assert stream[-2] < until <= stream[-1]

    @pytest.mark.parametrize("seed", SEEDS)
    def test_there_are_as_many_jobs_as_in_the_published_runs(self, seed):
        assert 1_680 <= make_workload(600, seed).jobs <= 1_780

    @pytest.mark.parametrize("seed", SEEDS)
    def test_no_job_is_due_after_all_has_to_be_over(self, seed):
        work = make_workload(600, seed)
        assert max(work.planned) == 641.0
        assert work.live[-1] + LIVE_AHEAD < 641.0


def test_a_seed_is_a_workload():
    assert make_workload(600, seed=7) == make_workload(600, seed=7)
    assert make_workload(600, seed=7) != make_workload(600, seed=8)


@pytest.mark.parametrize("duration", [10, 12.5, 60, 599])
def test_a_shorter_game_keeps_the_rules(duration):
    """Jobs are there ten seconds ahead, over the time asked for; the last one has as long as in the real game."""
    work = make_workload(duration, seed=3)
    assert work.since + 1 > PREPARE
    assert work.until - work.since == duration
    last = max(*work.planned, work.live[-1] + LIVE_AHEAD)
    assert work.end == pytest.approx(last + 19)
    assert last >= work.until


class TestTimetable:
    WORK = make_workload(600, seed=1)

    def test_workers_start_within_nine_seconds_and_stay(self):
        for [shift] in make_timetable(Mode.WORKERS, 10, self.WORK, seed=1):
            assert shift.start in range(10)
            assert shift.end == 660.0

    def test_in_a_short_game_they_are_there_before_its_jobs_are(self):
        work = make_workload(12, seed=1)
        starts = [shift.start for [shift] in make_timetable(Mode.WORKERS, 50, work, seed=1)]
        assert max(starts) <= 0.3 * work.since

    @pytest.mark.parametrize("mode", [Mode.HATEST, Mode.KILL])
    def test_others_come_and_go(self, mode):
        for shifts in make_timetable(mode, 5, self.WORK, seed=1):
            pauses = [after.start - before.end for before, after in pairwise(shifts)]
            lengths = [shift.end - shift.start for shift in shifts[:-1]]
            assert set(pauses) <= set(range(10))
            assert set(lengths) <= set(range(10, 30))
            assert len(set(lengths)) > 5
            assert 0 <= shifts[0].start < 10
            assert 630 < shifts[-1].end <= 660

    @pytest.mark.parametrize("seed", SEEDS)
    def test_in_a_reliability_round_three_of_five_leave_for_good(self, seed):
        """Two of them are killed and one is stopped, each at a random moment while jobs are due."""
        shifts = [shift for [shift] in make_timetable(Mode.RELIABILITY, 5, self.WORK, seed)]
        gone = [shift for shift in shifts if shift.end < self.WORK.end]
        assert sorted(shift.killed for shift in gone) == [False, True, True]
        assert all(self.WORK.since <= shift.end <= self.WORK.until for shift in gone)
        assert not any(shift.killed for shift in shifts if shift not in gone)
        assert all(0 <= shift.start < 10 for shift in shifts)

    @pytest.mark.parametrize(("instances", "gone"), [(1, 0), (2, 1), (3, 1), (5, 3), (10, 6)])
    def test_of_any_fleet_some_stay(self, instances, gone):
        shifts = make_timetable(Mode.RELIABILITY, instances, self.WORK, seed=1)
        assert sum(shift.end < self.WORK.end for [shift] in shifts) == leaving(instances) == gone

    def test_a_seed_is_a_timetable_and_instances_differ(self):
        first, second = make_timetable(Mode.KILL, 2, self.WORK, seed=1)
        assert first != second
        assert (first, second) == make_timetable(Mode.KILL, 2, self.WORK, seed=1)
        assert first != make_timetable(Mode.KILL, 2, self.WORK, seed=2)[0]
