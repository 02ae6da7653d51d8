"""Harms a call at each place of its conversation with the store, and compares what was told with what is there.

What is told as done is there, whole, and the answer is to this call; an error may mean either, but never a half. It
is one of ours, and comes in time. Of the two calls that follow on the same store one succeeds at least.
"""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from verb_scenes import Scene, Stage

from fault_proxy import Fault, Harm, Proxy, Way
from standfast.errors import StandfastError

QUICK = 0.75
"""Seconds that a call has where it waits in vain."""

AMPLE = 20.0
"""Seconds that it has where it need not."""

STUCK = 30.0
"""Seconds beyond that after which it is called stuck: others use the machine too."""

PATIENT = 10
"""How many of the calls that follow may be tried where the time-out is short; else two."""

SHARES = {Way.REQUEST: (0.0, 0.5), Way.ANSWER: (0.0, 0.5, 1.0)}
"""Before a message, in its middle, behind it."""


@dataclass(frozen=True)
class Manner:
    """How a call is made: from async code or not, on a connection that was used before or on a new one."""

    is_async: bool
    is_warm: bool

    def __str__(self) -> str:
        return f"{'async' if self.is_async else 'sync'}, {'warm' if self.is_warm else 'cold'}"


MANNERS = [Manner(is_async, is_warm) for is_async in (False, True) for is_warm in (True, False)]


class Caller:
    """Calls a store through the proxy in one manner, each time in a thread, so that one that is stuck is seen."""

    def __init__(self, backend: Any, manner: Manner) -> None:
        self._backend = backend
        self._runner = asyncio.Runner() if manner.is_async else None

    def call(self, scene: Scene, within: float) -> Any:
        """Return the answer, or raise what the call raises."""
        told: list[Any] = []

        def run() -> None:
            verb = scene.verb(self._backend.verbs)
            try:
                if self._runner is None:
                    told.append(self._backend.run(verb))
                else:
                    told.append(self._runner.run(self._backend.arun(verb)))
            except BaseException as error:  # noqa: BLE001 - it is raised below
                told.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(within + STUCK)
        assert not thread.is_alive(), "a call waits past its time-out"
        if isinstance(told[0], BaseException):
            raise told[0]
        return told[0]

    def close(self) -> None:
        self._backend.close()
        if self._runner is not None:
            self._runner.close()


class EveryByte:
    """Trials on one store. `open_backend` opens it through the proxy, with a time-out."""

    def __init__(self, stage: Stage, proxy: Proxy, open_backend: Callable[[float], Any]) -> None:
        self._stage = stage
        self._proxy = proxy
        self._open = open_backend
        self.runs = Counter[str]()
        """How many trials there were, by the harm that was done."""
        self._was_struck = False

    def places(self, name: str, manner: Manner) -> Iterator[tuple[Way, int, float]]:
        """Yield each place of a conversation: which way, which message, how much of it is passed on before."""
        with self._calling(manner, AMPLE) as caller:
            scene = self._stage.set(name)
            self._proxy.arm(None)
            self._judge(scene, caller.call(scene, AMPLE))
            heard = dict(self._proxy.heard)
        for way, number in heard.items():
            for message in range(number):
                yield from ((way, message, share) for share in SHARES[way])

    def try_fault(self, name: str, manner: Manner, fault: Fault) -> None:
        """Make one call, with harm done to it."""
        within = QUICK if fault.harm in {Harm.LATE, Harm.HOLE} else AMPLE
        with self._calling(manner, within) as caller:
            scene = self._stage.set(name)
            self._proxy.arm(fault)
            try:
                self.try_call(scene, caller, within)
                self.runs[str(fault.harm) if self._was_struck else "none"] += 1
            except AssertionError as wrong:
                raise AssertionError(f"{name}, {manner}, {fault}: {wrong}") from wrong
            finally:
                self._proxy.arm(None)

    def try_call(self, scene: Scene, caller: Caller, within: float) -> bool:
        """Make one call, compare what it told with what is there, and make others; tell whether it succeeded."""
        began = time.monotonic()
        try:
            answer = caller.call(scene, within)
        except StandfastError:
            took, succeeded = time.monotonic() - began, False
            self._was_struck = self._proxy.struck
            self._proxy.arm(None)
            _settled(scene)
        else:
            took, succeeded = time.monotonic() - began, True
            self._was_struck = self._proxy.struck
            self._proxy.arm(None)
            self._judge(scene, answer)
        assert took < within + STUCK, f"the call took {took:.1f} s"
        # With a short time-out the machine, too, may be what a call waits for.
        self._go_on(caller, 2 if within == AMPLE else PATIENT)
        return succeeded

    def _judge(self, scene: Scene, answer: Any) -> None:
        assert scene.is_right(answer), f"the answer is not to this call: {answer!r}"
        assert scene.is_done is None or scene.is_done(), f"told as done, and not there: {answer!r}"

    def _go_on(self, caller: Caller, tries: int) -> None:
        scene = self._stage.set("get")
        for _ in range(tries - 1):
            with suppress(StandfastError):
                answer = caller.call(scene, AMPLE)
                assert scene.is_right(answer), "the next call got the answer of another"
                return
        assert scene.is_right(caller.call(scene, AMPLE)), "the last call got the answer of another"

    def _calling(self, manner: Manner, within: float) -> "_Calling":
        return _Calling(self, manner, within)


class _Calling:
    """A store that is open for one trial, warm or cold."""

    def __init__(self, trials: EveryByte, manner: Manner, within: float) -> None:
        self._trials, self._manner, self._within = trials, manner, within

    def __enter__(self) -> Caller:
        self._trials._proxy.arm(None)
        self._caller = Caller(self._trials._open(self._within), self._manner)
        if self._manner.is_warm:
            for _ in range(3):  # on a busy machine the short time may not do
                with suppress(StandfastError):
                    self._caller.call(self._trials._stage.set("get"), self._within)
                    break
        return self._caller

    def __exit__(self, *_: object) -> None:
        self._caller.close()
        self._trials._proxy.cut_all()


def _settled(scene: Scene) -> bool:
    """Tell whether a call that failed is done all the same; all of it or nothing, once its commit is over."""
    give_up_at = time.monotonic() + STUCK
    while True:
        try:
            return scene.is_done is not None and scene.is_done()
        except AssertionError:
            if time.monotonic() > give_up_at:
                raise
