"""Channels and notes between simulated processes."""

import asyncio
import math
from collections import deque
from contextvars import Context

from simulator.process import Process
from standfast.worker.messages import Message, Renewed, Revoke

LATENCY = 0.002


class WireEnd:
    """One end of a line between two processes: ordered, a little slow, and cut when either side dies."""

    def __init__(self) -> None:
        self.peer: WireEnd
        self._inbox: deque[Message | None] = deque()
        self._mail = asyncio.Event()
        self._cut = False
        self._paused: tuple[str, ...] = ()
        self._heard: list[tuple[str, float, float]] = []

    @staticmethod
    def pair(one: Process, other: Process) -> "tuple[WireEnd, WireEnd]":
        """Return both ends."""
        ends = WireEnd(), WireEnd()
        ends[0].peer, ends[1].peer = ends[1], ends[0]
        for owner, far in ((one, ends[1]), (other, ends[0])):
            owner.exit.add_done_callback(far.hang_up, context=Context())
        return ends

    def send(self, message: Message) -> None:
        """Say something; does nothing when the other side is gone."""
        loop = asyncio.get_running_loop()
        loop.call_later(LATENCY, self.peer.deliver, message, context=Context())

    async def receive(self) -> Message | None:
        """Return the next word of the other side, or None once it is gone."""
        while not self._inbox:
            if self._cut:
                return None
            self._mail.clear()
            await self._mail.wait()
        message = self._inbox.popleft()
        self._note_pauses(message)
        return message

    def _note_pauses(self, message: Message | None) -> None:
        if isinstance(message, Revoke):
            self._paused = message.paused
        elif isinstance(message, Renewed):  # of the same beat, and its last word
            now = asyncio.get_running_loop().time()
            self._heard += [(queue, message.sent_at, now) for queue in self._paused]
            self._paused = ()

    def heard_of_pause(self, queue: str, since: float, known_at: float) -> float:
        """Return when its owner, who knew of a job, heard by a beat sent since then that its queue is paused."""
        return min(
            (at for name, sent_at, at in self._heard if name == queue and sent_at >= since and at >= known_at),
            default=math.inf,
        )

    def close(self) -> None:
        """Hang up."""
        self.peer.hang_up()

    def deliver(self, message: Message) -> None:
        """Take what the other side said."""
        if not self._cut:
            self._inbox.append(message)
            self._mail.set()

    def hang_up(self, _: object = None) -> None:
        """Hear that the other side is gone, after a moment."""
        loop = asyncio.get_running_loop()
        loop.call_later(LATENCY, self._end, context=Context())

    def _end(self) -> None:
        self._cut = True
        self._mail.set()


class MemoryLog:
    """Notes that outlive their writer, without a disk."""

    def __init__(self) -> None:
        self._data = bytearray()
        self.starts = 0

    @property
    def size(self) -> int:
        """How many bytes it holds."""
        return len(self._data)

    def append(self, data: bytes) -> None:
        """Add to the end."""
        self._data += data

    def put(self, position: int, byte: int) -> None:
        """Change one byte."""
        self._data[position] = byte

    def get(self, position: int) -> int:
        """Return one byte."""
        return self._data[position]

    def replace(self, data: bytes) -> None:
        """Start anew with this content."""
        self._data, self.starts = bytearray(data), self.starts + 1

    def read(self) -> bytes:
        """Return all that it holds."""
        return bytes(self._data)
