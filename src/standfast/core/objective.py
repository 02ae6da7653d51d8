"""Objectives: what the jobs of a task or a queue are to keep, and over which time. Pure."""

import msgspec


class Objective(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Of the jobs of a task or a queue, the share `target` starts within `start_within` seconds, or succeeds.

    With `start_within` it is about starts; without, about success. `over` is how many days count. It is published:
    fields that a later release adds have defaults.
    """

    name: str
    target: float
    task: str | None = None
    queue: str | None = None
    start_within: float | None = None
    over: int = 28
