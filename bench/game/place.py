"""The folder of one strategy's game: where its instances write down what they do."""

import os
from pathlib import Path

import msgspec

from game.counted import environment
from game.ledger import INSTANCE_VARIABLE, LEDGER_VARIABLE

_SETTINGS = "STANDFAST_"


class Place(msgspec.Struct, frozen=True):
    """The files of one game."""

    folder: Path

    @property
    def ledger(self) -> Path:
        """Where handlers say what they do."""
        return self.folder / "ledger"

    def calls(self, instance: str) -> Path:
        """Return where the calls of an instance are written down."""
        return self.folder / f"calls-{instance}"

    def log(self, instance: str) -> Path:
        """Return where an instance's words for people go."""
        return self.folder / f"log-{instance}"

    def environment(self, instance: str) -> dict[str, str]:
        """Return what an instance's surroundings are: ours without any settings, and its ledger and name."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_SETTINGS)}
        return {**kept, **environment(), LEDGER_VARIABLE: str(self.ledger), INSTANCE_VARIABLE: instance}
