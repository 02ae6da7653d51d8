"""A latch waits as long as it is told to, whatever signals come meanwhile."""

import subprocess
import sys

SCRIPT = """
import signal
from standfast.model.concurrency import Latch

signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
latch = Latch()
assert not any([latch.wait(0.001) for _ in range(2_000)])
latch.set()
assert latch.wait()
signal.setitimer(signal.ITIMER_REAL, 0)
"""


def test_a_signal_that_comes_as_the_time_is_up_makes_no_wait_endless() -> None:
    """A queue of Python 3.11 waits for ever then: it hung after some hundred of these waits."""
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, timeout=60)
