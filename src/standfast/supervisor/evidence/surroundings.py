"""What surrounds every incident, whatever it is about: the machine, what runs on it, and who tells."""

import asyncio
import os
import sys
from collections.abc import Callable

from standfast.codec.redaction import redact_environment, redact_text
from standfast.supervisor.evidence.gathering import gather
from standfast.supervisor.evidence.machine import command_line, machine, own_limits, versions

WITHIN = 1.0
"""Seconds for all of it."""


async def surroundings(supervisor: Callable[[], str]) -> dict[str, str]:
    """Return texts by name; `supervisor` tells how the one who tells is doing."""
    collectors: dict[str, Callable[[], str]] = {
        "supervisor": supervisor,
        "machine": machine,
        "limits": own_limits,
        "command": lambda: redact_text(command_line(sys.orig_argv)),
        "environment": _environment,
        "versions": versions,
    }
    return await gather({name: asyncio.to_thread(each) for name, each in collectors.items()}, WITHIN)


def _environment() -> str:
    return "\n".join(f"{name}={value}" for name, value in redact_environment(os.environ).items())
