"""The usual flavour of a lock: a lease in the store, which its holder renews."""

import os
import socket
from datetime import timedelta
from uuid import uuid4

from standfast.core.record import Kind
from standfast.locks.acquiring import Acquiring
from standfast.locks.errands import give_back
from standfast.locks.holding import Holding
from standfast.locks.keeper import Deputy
from standfast.locks.roll import Bid
from standfast.locks.ways import House, Ways
from standfast.patience import PASSING


class Leased:
    """One of so many places in a lock, for its `ttl` at a time."""

    def __init__(self, house: House, name: str, places: int, ttl: float) -> None:
        self._house = house
        self._name = name
        self._places = places
        self._ttl = ttl

    async def wait(self, ways: Ways, timeout: float | None) -> Holding | None:
        """Wait for a place and return it; None where none was to be had in time."""
        house, keeper = self._house, self._house.keepers()
        bid = Bid(str(uuid4()), timedelta(seconds=self._ttl), self._places, _owner(keeper.deputy))
        acquiring = Acquiring(ways, house.backend.verbs, house.clock, self._name, bid)
        try:
            holding = await acquiring.wait(timeout, house.retry_for)
            if holding is not None:
                keeper.keep(holding)
            elif timeout:
                await acquiring.leave()
        except BaseException:
            keeper.abandon(acquiring.holding())
            raise
        return holding

    async def give_back(self, ways: Ways, holding: Holding) -> bool:
        """Let others have it; tell whether it was held until now. What cannot be given back now is so later."""
        held = not holding.lost
        try:
            found = await ways.run(give_back(self._house.backend.verbs, Kind.LOCK, self._name, holding.id))
        except BaseException as error:
            self._house.keepers().give_back_later(holding)
            if isinstance(error, PASSING):
                return held
            raise
        return held and found


def _owner(deputy: Deputy | None) -> str:
    """Return in words who asks, for people who wonder."""
    whose = "" if deputy is None else deputy.whose()
    return f"{socket.gethostname()} pid {os.getpid()}{whose and ' '}{whose}"
