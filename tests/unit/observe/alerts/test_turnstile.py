"""One sender at a time for each channel: a receiver that hangs does not take all places."""

import threading

from standfast.observe.alerts.delivery import LONG, ChannelSlots
from standfast.testing.clock import FakeClock


def test_one_at_a_time_passes_for_each_channel():
    turnstile = ChannelSlots()
    assert turnstile.enter("mail")
    assert turnstile.enter("pager")
    passed = []
    other = threading.Thread(target=lambda: passed.append(turnstile.enter("mail")))
    other.start()
    assert passed == []
    turnstile.leave("mail")
    other.join(20)
    assert passed == [True]


def test_who_comes_while_somebody_takes_long_is_sent_away_at_once():
    clock = FakeClock()
    turnstile = ChannelSlots(clock.boot)
    assert turnstile.enter("mail")
    clock.advance(LONG)
    assert not turnstile.enter("mail")
    turnstile.leave("mail")
    assert turnstile.enter("mail")
