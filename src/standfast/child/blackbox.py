"""What a child prepares for its own death, before any code of the user's runs: others read it afterwards."""

import faulthandler
import signal
from pathlib import Path


def open_blackbox(stacks: Path) -> None:
    """Have the stacks of all threads written to a file on a fatal signal, and on SIGUSR1."""
    preparing = stacks.with_suffix(".part")
    file = preparing.open("w")  # open as long as the process: there is no opening it any more when it is needed
    faulthandler.enable(file=file, all_threads=True)
    faulthandler.register(signal.SIGUSR1, file=file, all_threads=True)
    preparing.rename(stacks)  # from now on the signal does not end this process, and may be sent
