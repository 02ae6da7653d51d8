"""What there is to say about a memory store from outside: that it lives inside one process."""

from holdfast.clock import Clock
from holdfast.store.examination import Census, Examination, Finding


def examine_memory(clock: Clock) -> Examination:
    """Return an examination without jobs: those of another process cannot be seen."""
    lives = "memory: jobs live inside one process and end with it"
    finding = Finding.warning("store", lives, "use it in tests only; name a sqlite:/// URL elsewhere")
    return Examination((finding,), usable=True, census=Census(clock.now()))
