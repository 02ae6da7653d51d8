"""What a game has to show, line by line. Pure."""

import msgspec

from game.judging import Judgement
from game.rules import LIST_PRICE, PREPARE
from game.scoring import Cost, Delays
from game.timetable import Mode
from standfast.model.display import counted

MOST_EFFICIENT = 90.0
"""Milliseconds: the floor is 83."""

SPARE_LISTS = 4
"""So many lists may be made beside one in ten seconds of the game: 7,000 in the real one, of 660 s."""


class Verdict(msgspec.Struct, frozen=True):
    """One line: whether it holds, in words. A `rule` must be kept; a bound says how well it was done."""

    name: str
    holds: bool
    rule: bool
    says: str


def most_cost(seconds: float) -> int:
    """Return what a game of so many seconds, from its start to its end, may cost."""
    return round(LIST_PRICE * (seconds / PREPARE + SPARE_LISTS))


def give_verdicts(
    mode: Mode, seconds: float, judged: Judgement, cost: Cost, delays: Delays | None
) -> tuple[Verdict, ...]:
    """Return all verdicts on one strategy: the rules in every mode, the bounds where instances stay."""
    verdicts = [
        _rule("complete", judged.unfinished, f"all {judged.jobs:,} jobs completed", "not completed"),
        _rule("once", judged.doubled, _once(mode, judged), "run twice, or under two claims at once"),
        _rule("early", judged.early, "none started early", "started early"),
        _rule("late", judged.late, "none more than 30 s late", "more than 30 s late"),
    ]
    if mode is Mode.WORKERS:
        bound = most_cost(seconds)
        verdicts.append(_bound("COST", cost.cost, bound))
        if delays is not None:
            verdicts.append(_bound("EFFICIENT", delays.efficient, MOST_EFFICIENT))
    return tuple(verdicts)


def _once(mode: Mode, judged: Judgement) -> str:
    if not mode.kills:
        return "each started exactly once, by the ledger"
    caught = counted(len(judged.restarted), "job")
    return f"never two valid claims of a job; {caught} that a kill had caught started again, and no other"


def _rule(name: str, wrong: tuple[int, ...], good: str, bad: str) -> Verdict:
    says = f"{counted(len(wrong), 'job')} {bad}" if wrong else good
    return Verdict(name, holds=not wrong, rule=True, says=says)


def _bound(name: str, measured: float, bound: float) -> Verdict:
    shown = f"{measured:,.0f}" if name == "COST" else f"{measured:,.2f} ms"
    holds = measured <= bound
    says = f"{name} {shown} {'≤' if holds else '>'} {bound:,.0f}"
    return Verdict(name, holds=holds, rule=False, says=says)
