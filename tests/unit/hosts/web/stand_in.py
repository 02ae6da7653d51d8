"""A child that is not ours to kill, in virtual time."""

import asyncio

from simulator.fleet import SimulatedChild
from simulator.process import Process
from simulator.wires import MemoryLog
from standfast.supervisor.child import Child, ChildSpec


class Line:
    """A line on which nobody answers."""

    def __init__(self):
        self.said = []

    def send(self, message):
        self.said.append(message)

    def close(self):
        pass


class Lodger(SimulatedChild):
    """One life inside another's process."""

    killable = False

    def kill(self):
        """Ask only."""


def adopted_child(phase):
    """Return a child in this phase of its life."""
    asyncio.get_running_loop()
    process = Lodger(Process(1, "host"), Line(), MemoryLog())
    return Child(ChildSpec("w"), process, pulse_at=0.0, phase=phase)
