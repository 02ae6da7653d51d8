"""What changes of a host is told once, and so many failures in a row are the end."""

import threading

from standfast.hosts.keepalive import MOST_KEPT, Change, KeepAlive, Kept, Pinged, Target

HOST = Target.of("http://shop.example/")
GOOD = Pinged(ok=True, says="200 OK")


def bad(number=0):
    return Pinged(ok=False, says=f"failure {number}")


def changes_of(pings, fail_after=3):
    kept = Kept(HOST)
    return [kept.take(each, fail_after) for each in pings]


def test_only_changes_are_told():
    pings = [GOOD, GOOD, bad(), bad(), GOOD, GOOD, bad(), GOOD]
    assert changes_of(pings) == [Change.UP, None, Change.DOWN, None, Change.BACK, None, Change.DOWN, Change.BACK]


def test_failures_count_in_a_row_only():
    assert changes_of([bad(), bad(), GOOD, bad(), bad(), bad()])[-1] is Change.GIVEN_UP
    assert changes_of([bad()], 1) == [Change.GIVEN_UP]


def test_the_last_failures_are_kept_as_evidence():
    kept = Kept(HOST)
    for number in range(MOST_KEPT + 5):
        kept.take(bad(number), 1000)
    assert kept.reasons == [f"failure {number}" for number in range(5, MOST_KEPT + 5)]


class Hosts:
    """Two hosts, of which one may hang."""

    def __init__(self):
        self.targets = [Target.of("http://a.example/"), Target.of("http://b.example/")]
        self.may_end = threading.Event()
        self.begun = []
        self.told = []

    def ping(self, target):
        self.begun.append(target)
        if target is self.targets[0]:
            assert self.may_end.wait(30)
        return GOOD

    def tell(self, kept, change, pinged):
        self.told.append((kept.target.url.hostname, change, pinged.ok))


def test_one_that_hangs_keeps_nobody_waiting_and_is_not_asked_twice():
    hosts = Hosts()
    alive = KeepAlive(hosts.targets, hosts.ping, fail_after=9, longest=-0.95)
    assert alive.round(hosts.tell)
    assert alive.round(hosts.tell)
    assert sorted(hosts.told) == [("a.example", Change.DOWN, False), ("b.example", Change.UP, True)]
    assert hosts.begun.count(hosts.targets[0]) == 1
    hosts.may_end.set()
    assert alive.round(hosts.tell)
    assert hosts.told[-1] == ("a.example", Change.BACK, True)


def test_a_ping_that_breaks_is_a_failure():
    def broken(_target):
        raise RuntimeError("token=hunter2")

    told = []
    alive = KeepAlive([HOST], broken, fail_after=1, longest=10)
    assert alive.round(lambda kept, change, pinged: told.append((change, pinged.says, kept.failures))) is False
    assert told == [(Change.GIVEN_UP, "internal error: RuntimeError", 1)]
