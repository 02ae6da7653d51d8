"""One instance: `python -m game.reference STRATEGY TABLE CALLS PERIOD INSTANCES`."""

import os
import signal
import sys
import threading
from pathlib import Path

from game.counted.journal import Journal
from game.ledger import INSTANCE_VARIABLE, this_ledger
from game.reference.strategies import find_strategy
from game.reference.table import Table


def main() -> None:
    """Play until SIGTERM."""
    strategy, table, calls, period, instances = sys.argv[1:]
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole terminal, and the game decides
    journal = Journal(Path(calls))
    number, _, _life = os.environ[INSTANCE_VARIABLE].partition(".")
    find_strategy(strategy)(
        lambda: Table(Path(table), journal),
        this_ledger(),
        stop,
        period=float(period),
        number=int(number),
        instances=int(instances),
    ).play()


if __name__ == "__main__":
    main()
