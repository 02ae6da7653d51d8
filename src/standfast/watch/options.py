"""What a person asked of the log of a worker."""

from typing import Literal

import msgspec

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["human", "json"]


class LogOptions(msgspec.Struct, frozen=True):
    """From which level on lines are written, and in which form. `quiet`: of log records only, not of events."""

    level: LogLevel = "info"
    format: LogFormat = "human"
    quiet: bool = False
