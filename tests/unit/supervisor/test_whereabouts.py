"""Where a child hangs: one line of the user's code, out of the stacks of all its threads."""

import re
import traceback

import pytest

from standfast.supervisor.incidents.snapshot import where_it_hangs
from standfast.worker import execution
from standfast.worker.loops import users_line

CURRENT, OTHER = "Current thread 0x1 (most recent call first):", "Thread 0x2 (most recent call first):"
LOOP = f'  File "{traceback.__file__}", line 3 in select\n  File "{execution.__file__}", line 9 in run'
RENDER = f'  File "{traceback.__file__}", line 5 in wait\n  File "/srv/jobs.py", line 12 in render\n{LOOP}'
BILL = RENDER.replace("line 12 in render", "line 7 in bill")
PACKAGES = "/venv/site-packages"
PACKAGED = f'  File "{PACKAGES}/lib.py", line 1 in deep\n  File "{PACKAGES}/shop.py", line 2 in sell\n{LOOP}'


@pytest.mark.parametrize(
    ("threads", "where"),
    [
        ([(CURRENT, LOOP)], ""),
        ([(OTHER, BILL), (CURRENT, RENDER)], "/srv/jobs.py:12 in render"),
        ([(OTHER, RENDER), (CURRENT, LOOP)], "/srv/jobs.py:12 in render"),
        ([(OTHER, LOOP), (OTHER, BILL), (CURRENT, LOOP)], "/srv/jobs.py:7 in bill"),
        ([(OTHER, BILL), (OTHER, RENDER), (CURRENT, LOOP)], "/srv/jobs.py:7 in bill, or in 1 other thread"),
        ([(CURRENT, PACKAGED)], "/venv/site-packages/shop.py:2 in sell"),
    ],
)
def test_the_main_thread_is_to_blame_or_who_holds_the_interpreter(threads, where):
    assert where_it_hangs("\n\n".join(f"{head}\n{lines}" for head, lines in threads)) == where


@pytest.mark.parametrize("stacks", ["", "(not known: there was no answer in time)", "nonsense\n  File"])
def test_what_cannot_be_read_says_nothing(stacks):
    assert where_it_hangs(stacks) == ""


def test_a_stack_as_python_writes_it_has_its_innermost_line_last():
    def inner() -> str:
        return "".join(traceback.format_stack())

    assert re.search(r"test_whereabouts\.py:\d+ in inner$", users_line(inner()))
