"""What a real worker tells of itself and of its app, from the store alone."""

from fleet import wait_until

from standfast.observe.catalogue import read_catalogue


def test_a_worker_tells_how_it_is_and_what_it_can_run(fleet_on):
    """Its memory, its load and what it has done come with its beats; its tasks and settings are published once."""
    fleet = fleet_on()
    fleet.start_workers(1)
    verbs, call = fleet.app.verbs, fleet.app.call
    view = wait_until(lambda: (found := call(read_catalogue(verbs))).tasks and found, what="the catalogue")
    assert {known.task.name for known in view.tasks} == set(fleet.app.tasks)
    [release] = view.releases
    assert {each.name: each.value for each in release.settings}["url"] == str(fleet.path)
    [worker] = wait_until(lambda: [each for each in call(verbs.workers()) if each.vitals], what="vitals")
    assert worker.vitals.memory > 10_000_000
    assert worker.vitals.slots == worker.info.concurrency
    assert worker.vitals.pulse_age < worker.info.lease.total_seconds()
