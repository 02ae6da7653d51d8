"""Four processes of one web server have the same schedule, and each planned time is fired once."""

from collections import Counter
from datetime import datetime, timedelta

import pytest
from fleet import PROVE, sizes
from host_stage import Stage, gunicorn

from standfast.model.records import Decision

FOUR = gunicorn("gunicorn-four", "host_flask:web", workers=4)
SECONDS = sizes(short=4, full=60)
STORES = sizes(short=("sqlite",), full=("sqlite", "postgres", "redis"))
SECOND = timedelta(seconds=1)

pytestmark = pytest.mark.timeout(300 if PROVE else 120)


@pytest.mark.parametrize("store", STORES)
def test_each_second_is_fired_once_by_four_processes(store, request, tmp_path):
    """The history of fires has each second once, and each has been done once, by any of the four."""
    stage = Stage(tmp_path, None if store == "sqlite" else request.getfixturevalue(f"{store}_url"))
    try:
        stage.start(FOUR)
        stage.wait_for_workers(4)
        stage.wait_for_note("done")
        first = min(planned(stage))
        expected = {first + number * SECOND for number in range(SECONDS)}
        stage.wait_until(lambda: planned(stage).keys() >= expected, "the run of each second")
        done = planned(stage)
        fires = stage.app.call(stage.app.schedules.fires("tick", limit=1000))
    finally:
        stage.close()
    assert max(done.values()) == 1, [time for time, count in done.items() if count > 1]
    assert {fire.decision for fire in fires} == {Decision.FIRED}
    times = sorted(fire.planned for fire in fires)
    assert times == [times[0] + number * SECOND for number in range(len(times))]
    assert len({fire.job_id for fire in fires}) == len(fires)


def planned(stage):
    """Return how often the job of each planned time was done."""
    return Counter(datetime.fromisoformat(note.about) for note in stage.notes.read("done"))
