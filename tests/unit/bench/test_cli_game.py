"""`bench game`: what is refused, and what its exit code says. A game itself is played by the acceptance tests."""

import pytest
from click.testing import CliRunner
from game_world import evidence_of, tournament_of
from msgspec.structs import replace

from holdfast.bench.game.timetable import Mode
from holdfast.cli.bench import exit_code
from holdfast.cli.main import cli


def refused(*words):
    result = CliRunner().invoke(cli, ["bench", "game", *words], prog_name="holdfast")
    assert result.exit_code == 2, result.output
    [line] = result.stderr.splitlines()
    return line


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--mode", "chaos"), "'chaos' is not one of 'workers', 'hatest', 'kill'"),
        (("--instances", "0"), "0 is not in the range 1<=x<=99"),
        (("--duration", "5"), "5.0 is not in the range 10<=x<=86400"),
        (("--strategy", "luck"), "'luck' is not one of"),
        (("--url", "mysql://u:secret@host/db"), "no store has the URL scheme 'mysql'"),
        (("--url", ""), "--url is empty"),
        (("--url", "memory://"), "a game needs a store that several processes share"),
        (("--seed", "x"), "'x' is not a valid integer"),
    ],
)
def test_what_cannot_be_played_is_refused_in_one_line(words, says):
    line = refused(*words)
    assert says in line
    assert "secret" not in line


class TestExitCode:
    def test_all_is_well(self):
        assert exit_code(tournament_of("ours").report) == 0

    def test_a_broken_rule_goes_before_a_missed_bound(self):
        evidence = evidence_of("ours")
        undone = replace(evidence.jobs[0], completed=False)
        broken = replace(evidence, jobs=[undone, *evidence.jobs[1:]], calls={"1.1": evidence.calls["1.1"] * 3})
        assert exit_code(tournament_of(evidence={"ours": broken}).report) == 1

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
