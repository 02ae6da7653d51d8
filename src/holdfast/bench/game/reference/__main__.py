"""One instance of a reference strategy: `python -m holdfast.bench.game.reference STRATEGY TABLE CALLS`."""

import signal
import sys
import threading
from pathlib import Path

from holdfast.bench.game.ledger import this_ledger
from holdfast.bench.game.reference.strategies import STRATEGIES
from holdfast.bench.game.reference.table import Table
from holdfast.store.counted.journal import Journal


def main() -> None:
    """Play until SIGTERM."""
    strategy, table, calls = sys.argv[1:]
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole terminal, and the game decides
    journal = Journal(Path(calls))
    STRATEGIES[strategy](lambda: Table(Path(table), journal), this_ledger(), stop)


if __name__ == "__main__":
    main()
