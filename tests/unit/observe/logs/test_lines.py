"""Lines go out in order, and a reader that stops reading stops nobody."""

import io
import os
import threading

from standfast.observe.logs.attach import LineWriter


def dropped(count: int) -> str:
    return f"({count} lines were dropped: nobody read them)\n"


class Stalled(io.StringIO):
    """A terminal on which someone pressed Ctrl-S."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()
        self.entered = threading.Event()

    def write(self, text: str) -> int:
        self.entered.set()
        assert self.go_on.wait(10)
        return super().write(text)


def test_lines_are_written_in_order() -> None:
    """After a flush all of them are there."""
    file = io.StringIO()
    writer = LineWriter(file, dropped)
    for number in range(500):
        writer.write(f"{number}\n")
    writer.flush(10)
    assert file.getvalue() == "".join(f"{number}\n" for number in range(500))


def test_a_stalled_reader_blocks_nobody_and_hears_what_it_missed() -> None:
    """Writing goes on at once; what did not fit is counted and said."""
    file = Stalled()
    writer = LineWriter(file, dropped, most_waiting=3)
    writer.write("first\n")
    assert file.entered.wait(10)
    for number in range(10):
        writer.write(f"{number}\n")
    file.go_on.set()
    writer.flush(10)
    writer.write("last\n")
    writer.flush(10)
    assert file.getvalue().startswith("first\n(7 lines were dropped: nobody read them)\n0\n1\n2\n")
    assert file.getvalue().endswith("last\n")


def test_a_flush_does_not_wait_for_ever() -> None:
    """A process that ends does not hang on its terminal."""
    file = Stalled()
    writer = LineWriter(file, dropped)
    writer.write("never read\n")
    writer.flush(0.02)
    file.go_on.set()


def test_a_terminal_that_is_gone_harms_nobody() -> None:
    """Its errors are not ours."""
    file = io.StringIO()
    file.close()
    writer = LineWriter(file, dropped)
    writer.write("into the void\n")
    writer.flush(10)


def test_between_lines_the_thread_ticks() -> None:
    """Whoever counts is called now and again, also while nothing is written."""
    ticked = threading.Event()
    LineWriter(io.StringIO(), dropped).tick = ticked.set
    assert ticked.wait(10)


def test_a_process_that_a_handler_forked_writes_itself() -> None:
    """It has no thread of ours, and its lines are not lost."""
    ours, theirs = os.pipe()
    with os.fdopen(theirs, "w") as file, os.fdopen(ours) as reader:
        writer = LineWriter(file, dropped)
        writer._process = 0  # as it looks after a fork, which the other threads of a test run would not survive
        writer.write("from a fork\n")
        assert reader.readline() == "from a fork\n"
