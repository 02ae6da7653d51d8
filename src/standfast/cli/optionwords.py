"""What is refused, told in the words of the command line: the errors of rules and policies speak Python."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from standfast.errors import ConfigurationError

_TRANSLATIONS = (
    (r", or say on which days it is on, with days=\(.*\)", ""),
    (r"a timedelta or seconds", "a span"),
    (r"datetime\.date\([\d, ]+\), ", ""),
    (r'Cron\("([^"]*)"\)', r"--cron '\1'"),
    (r"Every\((\d+)\)", r"--every \1s"),
    (r'Window\("([\d:]+)", "([\d:]+)"[^)]*\)', r"--exclude '\1-\2'"),
    (r'\b(\w+)="([^"]*)"', r"--\1 \2"),
    (r"\b(\w+)=(\d+)", r"--\1 \2"),
    (r"(?<![-\w'])(max_attempts|misfire_after|catch_up_\w+|pause_on_failure)\b", r"--\1"),
)


@contextmanager
def told_in_options() -> Iterator[None]:
    """Tell what is wrong inside, and what would be right, as one writes it on a command line."""
    try:
        yield
    except ConfigurationError as error:
        raise ConfigurationError(in_options(str(error))) from error


def in_options(words: str) -> str:
    """Return advice with the options of the command line in the place of Python."""
    for python, options in _TRANSLATIONS:
        words = re.sub(python, options, words)
    return re.sub(r"--\w+", lambda option: option[0].replace("_", "-"), words)
