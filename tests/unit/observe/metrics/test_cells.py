"""Cells outlive their process, are read while they are written, and hold no more than there is room for."""

import subprocess
import sys

from standfast.observe.metrics.cells import LOOSE, NAMES, ROWS, Cells, Counted, read_cells

DIES = """
import os, signal, sys
from pathlib import Path
from standfast.observe.metrics.cells import Cells

cells = Cells(Path(sys.argv[1]))
row = cells.add_row(("jobs", "mail", "send"))
cells.values[row + 3] += 7
cells.values[cells.loose] += 2
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_was_counted_outlives_a_kill(tmp_path):
    file = tmp_path / "counts"
    assert subprocess.run([sys.executable, "-c", DIES, str(file)], check=False).returncode == -9
    counted = read_cells(file)
    assert counted.loose == (2, *[0] * (LOOSE - 1))
    assert counted.rows[("jobs", "mail", "send")][3] == 7


def test_a_file_that_is_not_there_or_not_ours_says_nothing(tmp_path):
    file = tmp_path / "counts"
    assert read_cells(file) == Counted()
    file.write_bytes(b"something else")
    assert read_cells(file) == Counted()
    cells = Cells(file)
    cells.add_row(("jobs", "mail", "send"))
    cells.values[0] += 1
    assert read_cells(file) == Counted()  # of another release
    cells.close()


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from standfast.observe.metrics.cells import Cells

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    Cells(Path(sys.argv[1]))
except OSError as error:
    print(error.strerror)
"""


def test_a_disk_with_room_for_a_part_of_it_is_full(tmp_path):
    """Such a write says how much was written, and does not fail by itself."""
    told = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path / "counts")], check=True, capture_output=True
    )
    assert told.stdout == b"No space left on device\n"
    assert not list(tmp_path.iterdir())


def test_rows_end_where_there_is_no_room_for_another(tmp_path):
    many, long = Cells(tmp_path / "many"), Cells(tmp_path / "long")
    rows = [many.add_row(("jobs", str(number))) for number in range(ROWS + 3)]
    assert rows[-4:] == [rows[-4], None, None, None]
    assert len(set(rows[:-3])) == ROWS
    assert long.add_row(("x" * NAMES,)) is None
    assert long.add_row(("é\n", '"')) is not None
    assert list(read_cells(tmp_path / "long").rows) == [("é\n", '"')]
    assert len(read_cells(tmp_path / "many").rows) == ROWS
