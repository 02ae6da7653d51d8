"""The line between supervisor and child: whatever is said over it, the other side can hear it."""

import asyncio
import socket

from standfast.model.incidents import Trouble
from standfast.worker.messages import LINE_LIMIT, LONGEST_TEXT, Failed, Noticed, Pulse, SocketChannel, hear_out


async def test_a_word_that_is_too_long_is_cut_and_the_next_is_heard() -> None:
    """The text of an exception may have any length."""
    ours, theirs = socket.socketpair()
    child, supervisor = await SocketChannel.over(ours), await SocketChannel.over(theirs)
    huge = "x" * (LINE_LIMIT + 1)
    for message in (Failed(huge, huge), Noticed(Trouble.EXCEPTION, huge, "f", {"traceback": huge}), Pulse(0.5)):
        child.send(message)
    failed, noticed, pulse = [await supervisor.receive() for _ in range(3)]
    assert failed == Failed("x" * LONGEST_TEXT, "x" * LONGEST_TEXT)
    assert isinstance(noticed, Noticed)
    assert noticed.parts == {"traceback": "x" * LONGEST_TEXT}
    assert pulse == Pulse(0.5)
    child.close()
    supervisor.close()


def test_any_event_loop_hears_out() -> None:
    """The sockets that uvloop shows have a number, and cannot be shut; once closed, it shows none."""
    ours, theirs = socket.socketpair()

    class Shown:
        def fileno(self) -> int:
            return ours.fileno()

    with ours, theirs:
        theirs.send(b"said before")
        hear_out(asyncio.BaseTransport({"socket": Shown()}))
        assert [ours.recv(100), ours.recv(100)] == [b"said before", b""]
    hear_out(asyncio.BaseTransport({"socket": None}))
