"""`make game`: what is refused, and what its exit code says. A game itself is played by the acceptance tests."""

import pytest
from click.testing import CliRunner
from game_world import evidence_of, tournament_of
from msgspec.structs import replace

from game.__main__ import exit_code, game, tell_report
from game.timetable import Mode

STRATEGY = "game.reference"


def refused(*words):
    result = CliRunner().invoke(game, words, prog_name="game")
    assert result.exit_code == 2, result.output
    [line] = result.stderr.splitlines()
    return line


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--mode", "chaos"), "'chaos' is not one of 'workers', 'hatest', 'kill', 'reliability', 'both'"),
        (("--mode", "both", "--instances", "1"), "--mode both takes two instances or more"),
        (("--instances", "0"), "0 is not in the range 1<=x<=99"),
        (("--duration", "5"), "5.0 is not in the range 10<=x<=86400"),
        (("--strategy", "luck"), "'luck' is not one of"),
        (("--strategy", "luck"), "and not MODULE:CLASS"),
        (("--strategy", "nowhere:Mine"), "there is no module 'nowhere': run from the folder that holds it"),
        (("--strategy", "json:Mine"), "json has no class named 'Mine': derive a class from game.reference"),
        (
            ("--strategy", "all", "--strategy", "json:JSONDecoder"),
            "a class that is no strategy named 'JSONDecoder'",
        ),
        (("--strategy", f"{STRATEGY}:Strategy"), "and write its play()"),
        (("--period", "0"), "0.0 is not in the range 0.1<=x<=60"),
        (("--url", "mysql://u:secret@host/db"), "no store has the URL scheme 'mysql'"),
        (("--url", ""), "--url is empty"),
        (("--url", "memory://"), "lives inside one process, and this takes several"),
        (("--seed", "x"), "'x' is not a valid integer"),
    ],
)
def test_what_cannot_be_played_is_refused_in_one_line(words, says):
    line = refused(*words)
    assert says in line
    assert "secret" not in line


def test_a_report_that_cannot_be_written_is_refused_before_the_game(tmp_path):
    (tmp_path / "file").touch()
    result = CliRunner().invoke(game, ["--report", str(tmp_path / "file" / "report")])
    assert result.exit_code != 0
    assert "Not a directory" in result.stderr


def test_a_board_that_cannot_be_read_is_refused_before_the_game(tmp_path):
    (tmp_path / "runs.jsonl").write_text('{"strategy":"ours"}\n')
    line = refused("--board", str(tmp_path))
    assert "line 1 of" in line
    assert "is not a run: Object missing required field" in line
    assert line.endswith("remove the line")


class TestTelling:
    def test_the_real_game_with_its_place_on_the_board(self, capsys):
        tell_report(tournament_of().report)
        told = capsys.readouterr().out
        assert "The scheduling game: 5 instances, jobs over 600 s, 660 s from start to end, seed 1." in told
        assert "look_ahead 10.3, lease 15" in told
        assert "Among those of WORKERS05: COST first of 9, EFFICIENT first of 9" in told
        assert "No published run is as good in both scores at once" in told
        assert "✓ COST 6,600 ≤ 7,000" in told
        assert "not the game as published" not in told

    def test_a_shorter_one_without(self, capsys):
        tell_report(tournament_of(duration=20.0).report)
        told = capsys.readouterr().out
        assert "This was not the game as published" in told
        assert "published board" not in told
        assert "✗ COST 6,600 > 1,000" in told


class TestExitCode:
    def test_all_is_well(self):
        assert exit_code(tournament_of("ours").report) == 0

    def test_a_broken_rule_goes_before_a_missed_bound(self):
        evidence = evidence_of("ours")
        undone = replace(evidence.jobs[0], completed=False)
        broken = replace(evidence, jobs=[undone, *evidence.jobs[1:]], calls={"1.1": evidence.calls["1.1"] * 3})
        assert exit_code(tournament_of(evidence={"ours": broken}).report) == 1

    def test_of_two_rounds_the_worst_counts(self):
        """--mode both: a reliability round and the benchmark."""
        evidence = evidence_of("ours")
        undone = replace(evidence, jobs=[replace(evidence.jobs[0], completed=False), *evidence.jobs[1:]])
        reliability = tournament_of(mode=Mode.RELIABILITY, evidence={"ours": undone})
        assert exit_code(reliability.report, tournament_of("ours").report) == 1
        assert exit_code(tournament_of(mode=Mode.RELIABILITY).report, tournament_of("ours").report) == 0

    def test_a_missed_bound(self):
        evidence = evidence_of("ours")
        dear = replace(evidence, calls={"1.1": evidence.calls["1.1"] * 2})
        assert exit_code(tournament_of(evidence={"ours": dear}).report) == 4

    def test_who_comes_and_goes_has_no_bound(self):
        evidence = evidence_of("ours")
        dear = replace(evidence, calls={"1.1": evidence.calls["1.1"] * 2})
        assert exit_code(tournament_of(mode=Mode.HATEST, evidence={"ours": dear}).report) == 0

    def test_reference_strategies_have_nothing_to_prove(self):
        assert exit_code(tournament_of("naive").report) == 0
