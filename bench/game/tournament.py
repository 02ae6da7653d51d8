"""One game, played by one strategy after the other: the same workload, timetable, machine and price list."""

import asyncio
import signal
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from secrets import token_hex

import msgspec

from game.contender import Contender
from game.evidence import Evidence
from game.machine import this_machine
from game.ours import Ours, Rules
from game.place import Place
from game.playing import Game, Moment, play
from game.reference.contender import Reference
from game.reference.strategies import STRATEGIES
from game.result import OURS, Report, make_figures, seconds_of
from game.timetable import Mode
from standfast.stores.url import public_name

ALL = (OURS, *STRATEGIES)
"""Every strategy, in the order in which they play."""

LEASE = 15.0
LEASE_AMONG_KILLS = 3.0
"""Seconds: jobs of a killed instance have to be found and run within 30."""

Told = Callable[[str, Moment], None]
"""Hears how far which strategy is."""


class Tournament(msgspec.Struct, frozen=True):
    """What came of it."""

    report: Report
    evidence: Mapping[str, Evidence]


def run_tournament(game: Game, strategies: Sequence[str], url: str | None, tell: Told) -> Tournament:
    """Play, and return what happened. Without a URL our jobs are in a SQLite file that is gone afterwards.

    With one they are in a namespace of their own there, and stay.
    """
    rules = rules_of(game.mode)
    with tempfile.TemporaryDirectory(prefix="standfast-game-") as folder:
        store = f"sqlite:///{folder}/jobs.db" if url is None else url
        name = "a SQLite file" if url is None else public_name(url)
        namespace = None if url is None else f"game_{token_hex(4)}"
        played_at = datetime.now(UTC)

        def enter(strategy: str, place: Place) -> Contender:
            return Ours(place, rules, store, namespace) if strategy == OURS else Reference(strategy, place, game)

        evidence = asyncio.run(_play_all(game, strategies, Path(folder), enter, tell))
    report = Report(
        played_at=played_at.replace(microsecond=0),
        mode=game.mode,
        instances=game.instances,
        duration=game.duration,
        seconds=max(seconds_of(game, of_one) for of_one in evidence.values()),
        seed=game.seed,
        period=game.period,
        comparable=game.is_real,
        store=name if namespace is None else f"{name}, namespace {namespace}",
        settings=msgspec.structs.asdict(rules),
        machine=this_machine(),
        strategies=tuple(make_figures(strategy, game, evidence[strategy]) for strategy in strategies),
    )
    return Tournament(report, evidence)


def rules_of(mode: Mode) -> Rules:
    """Return how our instances are set in a mode."""
    return Rules(lease=LEASE_AMONG_KILLS if mode.kills else LEASE)


async def _play_all(
    game: Game, strategies: Sequence[str], folder: Path, enter: Callable[[str, Place], Contender], tell: Told
) -> dict[str, Evidence]:
    evidence: dict[str, Evidence] = {}
    playing = asyncio.current_task()
    assert playing is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup says that a closed terminal is no reason
            asyncio.get_running_loop().add_signal_handler(number, playing.cancel)
    try:
        for strategy in strategies:
            place = Place(folder / strategy)
            place.folder.mkdir()
            contender = enter(strategy, place)
            try:
                evidence[strategy] = await play(game, contender, place, partial(tell, strategy))
            finally:
                contender.close()
    except asyncio.CancelledError as error:  # told to end, one way or the other: no instance is left
        raise KeyboardInterrupt from error
    return evidence
