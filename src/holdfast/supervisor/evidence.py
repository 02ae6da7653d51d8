"""What a dead process tells about its death."""

import signal
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process ended: its status, or minus the number of the signal that ended it."""

    code: int

    @property
    def clean(self) -> bool:
        """Whether it ended as it should."""
        return self.code == 0

    def __str__(self) -> str:
        if self.code >= 0:
            return f"its process exited with status {self.code}"
        try:
            name = signal.Signals(-self.code).name
        except ValueError:
            name = f"signal {-self.code}"
        hint = " (often the kernel's out-of-memory killer)" if name == "SIGKILL" else ""
        return f"its process was ended by {name}{hint}"
