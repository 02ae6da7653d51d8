"""A snapshot that somebody holds open keeps the server from clearing away what is dead; jobs go by all the same.

Short by default; `make prove NAME=held_snapshot` runs it at full size, asks for the ratio, and measures a peer
beside it if `make bench` has installed any.
"""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median

import psycopg
import pytest
from batches import Batches
from fleet import PROVE, sizes

from connections import for_libpq
from standfast.model.states import State
from standfast.stores.contract import count_states

GONE_BY = sizes(short=5_000, full=200_000)
"""Jobs that go through while the snapshot is held."""

MEASURED = sizes(short=1_000, full=20_000)
ROUNDS = sizes(short=1, full=5)
ASKED = 0.8

ROOT = Path(__file__).resolve().parent.parent.parent
PEERS = ROOT / ".venv" / "peers" / "bin" / "python"

pytestmark = pytest.mark.timeout(3000 if PROVE else 120)


@contextmanager
def held_snapshot(url: str, table: str) -> Iterator[Callable[[], int]]:
    """Hold a read-only snapshot open; give a way to ask how many rows a table has in it."""
    with psycopg.connect(**for_libpq(url)) as own:
        own.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        own.read_only = True

        def count() -> int:
            found = own.execute(f"SELECT count(*) FROM {table}").fetchone()
            assert found is not None
            return int(found[0])

        count()
        yield count
        own.rollback()


def test_held_snapshot(postgres_url, postgres_schema, postgres_database, measured):
    """Everything goes through, and in the end nearly as fast as in a database where nobody holds a snapshot."""
    with closing(Batches(postgres_url)) as batches, closing(Batches(postgres_database)) as elsewhere:
        elsewhere.pass_through(MEASURED)
        with held_snapshot(postgres_url, f"{postgres_schema}.job") as seen:
            batches.pass_through(GONE_BY)
            # One after the other, so that whatever else this machine does slows down both.
            rates = [(elsewhere.pass_through(MEASURED), batches.pass_through(MEASURED)) for _ in range(ROUNDS)]
            assert seen() == 0, "the snapshot was not held"
        assert batches.claim() == ()
        counts = batches.backend.run(count_states(batches.backend.verbs))

    assert counts[State.COMPLETED] == GONE_BY + ROUNDS * MEASURED
    clean, held = (median(column) for column in zip(*rates, strict=True))
    ratio = median(held / clean for clean, held in rates)
    measured(
        f"after {GONE_BY} jobs under a held snapshot {held:.0f} jobs/s, without {clean:.0f} jobs/s:"
        f" ratio {ratio:.2f}"
    )
    assert ratio >= ASKED or not PROVE


@pytest.mark.full_size
def test_held_snapshot_peer(postgres_database, tmp_path, measured):
    """PgQueuer beside it: whatever comes out is no failure of ours."""
    if not PEERS.exists():
        measured("pgqueuer is not installed; make bench does that")
        return

    def drain(count: int) -> float:
        return drain_of_pgqueuer(postgres_database, tmp_path, count)

    drain(MEASURED)
    clean = median(drain(MEASURED) for _ in range(ROUNDS))
    with held_snapshot(postgres_database, "pgqueuer"):
        drain(GONE_BY)
        held = median(drain(MEASURED) for _ in range(ROUNDS))
    measured(
        f"pgqueuer after {GONE_BY} jobs under a held snapshot {held:.0f} jobs/s, before {clean:.0f} jobs/s:"
        f" ratio {held / clean:.2f}"
    )


def drain_of_pgqueuer(url: str, folder: Path, count: int) -> float:
    """Return how many jobs a second PgQueuer drains, as the bench measures it."""
    notes = folder / f"notes-{len(list(folder.iterdir()))}"
    notes.mkdir()
    done = subprocess.run(
        [PEERS, "measured.py", "peer_pgqueuer", "drain", str(count)],
        cwd=ROOT / "bench" / "contenders",
        env={**os.environ, "BENCH_URL": url, "BENCH_FOLDER": str(notes), "BENCH_PATIENCE": "900"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return float(json.loads(done.stdout))
