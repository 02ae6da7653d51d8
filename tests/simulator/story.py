"""What happens in a world: jobs come, people interfere, things break; then all is calm and the checker looks."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from simulator.fleet import KILLED, Tree
from simulator.punctual import FairWeather
from simulator.wishes import KINDS, SIGNAL, Wish, draw_wish, make_wish
from simulator.world import BEAT, LEASE, Weather, World
from standfast.errors import JobNotFoundError, StandfastError
from standfast.model.states import FINAL, State
from standfast.settings import Settings
from standfast.stores.contract import cancel_job
from standfast.stores.verb import Verb

STORM = 60.0
SETTLED_WITHIN = 240.0
PROBES = 3
PROBE_WITHIN = 0.5
SUSPENDED_WITHIN = 1.0

HASTY = 0.7
"""How often a signal is sent about when a job goes to wait for it."""

SETTINGS = Settings(
    url="memory://", lease=LEASE, beat=BEAT, grace=3.0, hang_limit=40.0, look_ahead=12.0, safety_poll=20.0,
    store_timeout=3.0, concurrency=4,
)  # fmt: skip

SAFETY_POLLS = (1.0, 1.9, 5.0, 20.0)
"""Turns that come quickly, as beside a bell that works, and slowly; the last ones too slowly for `look_ahead`."""

GRACES = (3.0, 12.0, 12.0)

DRAIN_LIMIT = 8.0


class Story:
    """One play in one world."""

    clock_steps: Sequence[float] = (-3600, -5, 5, 3600)

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = world.random
        self.wishes: dict[str, Wish] = {}
        self.sent: dict[str, list[str]] = {}
        """The signals that each job was sent."""
        self._sending = defaultdict[str, asyncio.Lock](asyncio.Lock)
        self._trees: list[Tree] = []
        self._settings = replace(
            SETTINGS,
            safety_poll=self._random.choice(SAFETY_POLLS),
            grace=self._random.choice(GRACES),
            recycle_age=world.land.recycle_age,
            drain_limit=DRAIN_LIMIT,
        )
        self._stormy = True
        self._latest = world.store_clock.offset

    async def play(self) -> None:
        """Play from the first enqueue to the last check."""
        self._world.say(f"{self._world.land}, {self._settings}")
        for _ in range(self._random.choice((2, 2, 3))):
            self._start_tree()
        acts = (self._enqueue_jobs(), self._meddle(), self._break_things(), self._change_weather())
        await asyncio.gather(*acts)
        await self._calm_down()
        await self._settle()
        await self._probe()
        await self._be_punctual()

    # -- people ----------------------------------------------------------------------------------------------

    async def _enqueue_jobs(self) -> None:
        kinds = self._random.choices(list(KINDS), list(KINDS.values()), k=self._random.randint(15, 45))
        for number, kind in enumerate(kinds):
            await self._pause(0, 2 * STORM / len(kinds))
            await self._enqueue(f"job-{number:03}", kind)
            if kind == "order" and self._random.random() < HASTY:
                await self._pause(0, SUSPENDED_WITHIN)
                await self._send(f"job-{number:03}")

    async def _enqueue(self, job_id: str, kind: str, queue: str | None = None) -> None:
        wish = self.wishes[job_id] = draw_wish(self._random, job_id, kind, queue)
        self._world.say(f"enqueues {job_id} ({wish.job.task}, {wish.arguments})")
        await self._insist(lambda: self._world.store.enqueue((wish.job,)))

    async def _meddle(self) -> None:
        while self._stormy:
            await self._pause(1, 8)
            await self._random.choice((self._cancel_one, self._pause_queue, self._send_one, self._send_one))()

    async def _cancel_one(self) -> None:
        if self.wishes:
            job_id = self._random.choice(list(self.wishes))
            self._world.cancelled.add(job_id)
            await self._insist(lambda: cancel_job(self._world.store, job_id))

    async def _pause_queue(self) -> None:
        """Pause a queue, just after there came a job which has to be marked before it may start."""
        await self._enqueue(f"mail-{len(self.wishes):03}", "once", "mail")
        await self._pause(0, 1)
        await self._insist(lambda: self._world.store.pause("mail"))
        await self._pause(0, 16)
        await self._insist(lambda: self._world.store.resume("mail"))

    async def _send_one(self) -> None:
        """Send a signal to a job that will wait for it, or does, or did."""
        if waiting := [job_id for job_id, wish in self.wishes.items() if wish.signals]:
            await self._send(self._random.choice(waiting))

    async def _send(self, job_id: str) -> None:
        sent = self.sent.setdefault(job_id, [])
        token = f"{len(sent):04}"
        sent.append(token)
        async with self._sending[job_id]:  # of two that are under way at once nobody can say which is the first
            await self._insist(lambda: self._world.store.signal(job_id, SIGNAL, token, msgspec.json.encode(token)))

    async def _insist(self, make: Callable[[], Verb[Any]]) -> None:
        """Call as a stubborn client does: again with the same id until there is an answer."""
        while True:
            try:
                async with asyncio.timeout(SETTINGS.store_timeout):
                    await self._world.call(make())
            except (TimeoutError, StandfastError):
                await asyncio.sleep(0.2)
            else:
                return

    # -- faults ----------------------------------------------------------------------------------------------

    async def _break_things(self) -> None:
        while self._stormy:
            await self._pause(0.5, 10)
            tree = self._random.choice(self._trees)
            act = self._random.choice((self._kill_tree, self._kill_child, self._kill_supervisor, self._freeze,
                                       self._freeze, self._deploy, self._set_clock))  # fmt: skip
            await act(tree)

    async def _kill_tree(self, tree: Tree) -> None:
        self._world.say("kill -9 of a whole tree")
        for process in (tree.process, *tree.children):
            process.end(KILLED)
        await self._replace(tree)

    async def _kill_child(self, tree: Tree) -> None:
        living = [process for process in tree.children if process.alive]
        if living:
            victim = self._random.choice(living)
            self._world.say(f"kill -9 of {victim.name}")
            victim.end(KILLED)

    async def _kill_supervisor(self, tree: Tree) -> None:
        self._world.say(f"kill -9 of {tree.process.name} alone")
        tree.process.end(KILLED)
        await self._replace(tree)

    async def _deploy(self, tree: Tree) -> None:
        self._world.say(f"SIGTERM to {tree.process.name}")
        tree.stop()
        await self._replace(tree)

    async def _freeze(self, tree: Tree) -> None:
        frozen = [process for process in (tree.process, *tree.children) if process.alive]
        if self._random.random() < 0.3:
            frozen = frozen[1:]
        self._world.say(f"SIGSTOP of {', '.join(process.name for process in frozen)}")
        for process in frozen:
            process.stop(self._world.clock.boot())
        await self._pause(0, 3 * SETTINGS.lease)
        self._world.say(f"SIGCONT of {', '.join(process.name for process in frozen)}")
        for process in frozen:
            process.resume()

    async def _set_clock(self, _: Tree) -> None:
        step = timedelta(seconds=self._random.choice(self.clock_steps))
        clock = self._random.choice((self._world.clock, self._world.store_clock))
        whose = "store's" if clock is self._world.store_clock else "fleet's"
        self._world.say(f"the {whose} wall clock is set by {step}")
        clock.set(clock.offset + step)
        self._latest = max(self._latest, self._world.store_clock.offset)

    async def _replace(self, tree: Tree) -> None:
        await self._pause(0.1, 4)
        self._trees.remove(tree)
        self._start_tree()

    def _start_tree(self) -> Tree:
        self._trees.append(Tree(self._world, self._settings, self._random.choice((1, 1, 2))))
        return self._trees[-1]

    async def _change_weather(self) -> None:
        while self._stormy:
            await self._pause(1, 10)
            chances = (0.0, 0.0, 0.02, 0.1, 0.3)
            self._world.weather = Weather(
                lose_request=self._random.choice(chances),
                lose_answer=self._random.choice(chances),
                delay=self._random.choice(chances),
                lose_ring=self._random.choice((0.0, 0.5, 1.0)),
                refuse=self._random.choice((0.1, 0.5, 0.9)),
                refused=self._random.choice(("", "claim", "finish", "start", "start", "save", "memos")),
                bug=self._world.bugs.choice((0.0, 0.0, 0.01, 0.1)),
            )
            if self._random.random() < 0.2:
                await self._outage()
            if self._world.clock.boot() > STORM:
                self._stormy = False

    async def _outage(self) -> None:
        seconds = self._random.uniform(0, 3 * SETTINGS.lease)
        self._world.say(f"the store is away for {seconds:.1f} s")
        self._world.weather.outage = True
        await asyncio.sleep(seconds)
        self._world.weather.outage = False
        self._world.outage_over(seconds)
        self._world.say("the store is back")

    # -- calm ------------------------------------------------------------------------------------------------

    async def _calm_down(self) -> None:
        self._world.say("all is calm")
        self._world.weather = Weather()
        await asyncio.sleep(2 * self._world.weather.longest_delay)  # what is under way arrives
        await self._insist(lambda: self._world.store.resume("mail"))
        self._world.store_clock.set(self._latest)  # whatever was put off by a step of the clock is due

    async def _settle(self) -> None:
        """Send what people owe, and wait until every job has come to its end; not forever."""
        for job_id, wish in self.wishes.items():
            for _ in range(wish.signals - len(self.sent.get(job_id, ()))):
                await self._send(job_id)
        deadline = self._world.clock.boot() + SETTLED_WITHIN
        while (open_jobs := self._open()) and self._world.clock.boot() < deadline:  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.5)
        for job_id in open_jobs:
            self._world.violate(
                f"{job_id} ({self.wishes[job_id].kind}) never ended: {self._world.store.look(job_id)}"
            )

    def _open(self) -> list[str]:
        return [job_id for job_id, wish in self.wishes.items() if not self._ended(job_id, wish)]

    def _ended(self, job_id: str, wish: Wish) -> bool:
        state = self._world.store.look(job_id).state
        return state in FINAL or (wish.kind == "unknown" and state is State.BLOCKED)

    async def _probe(self) -> None:
        """With nothing wrong and everyone idle, the bell alone must bring a job to its start at once."""
        await asyncio.sleep(3 * SETTINGS.lease)
        for number in range(PROBES):
            job_id = f"probe-{number}"
            await self._enqueue_probe(make_wish("ok", job_id, "work", {"kind": "ok", "seconds": 0}))
            if job_id not in self._world.ledger.starts:
                self._world.violate(f"{job_id} did not start within {PROBE_WITHIN} s of its enqueue")
        waits = {"kind": "ok", "signals": 1, "timeout": None, "seconds": 0}
        await self._enqueue_probe(make_wish("order", "probe-order", "order", waits))
        await asyncio.sleep(SUSPENDED_WITHIN)
        await self._send("probe-order")
        await asyncio.sleep(PROBE_WITHIN)
        if len(self._world.ledger.starts.get("probe-order", ())) <= 1:
            self._world.violate(f"probe-order did not go on within {PROBE_WITHIN} s of its signal")
        await self._probe_a_signal_between()

    async def _probe_a_signal_between(self) -> None:
        """Send a signal when its job has begun to wait and is not suspended yet: it must not be missed."""
        waits = {"kind": "ok", "signals": 1, "timeout": None, "seconds": 0}
        wish = self.wishes["probe-between"] = make_wish("order", "probe-between", "order", waits)
        await self._world.call(self._world.store.enqueue((wish.job,)))
        give_up_at = self._world.clock.boot() + PROBE_WITHIN
        while not self._waits("probe-between") and self._world.clock.boot() < give_up_at:  # noqa: ASYNC110
            await asyncio.sleep(0.0001)
        self.sent["probe-between"] = ["0000"]
        signal = self._world.store.signal("probe-between", SIGNAL, "0000", msgspec.json.encode("0000"))
        with suppress(JobNotFoundError):  # the job was told as accepted and is not stored: it is told elsewhere
            self._world.store.apply(signal)
        for tone in signal.tones:
            self._world.bell.ring(tone)
        await asyncio.sleep(SUSPENDED_WITHIN)
        if len(self._world.ledger.starts.get("probe-between", ())) <= 1:
            self._world.violate(f"probe-between did not go on within {SUSPENDED_WITHIN} s of its signal")

    def _waits(self, job_id: str) -> bool:
        has_begun = job_id in self._world.ledger.starts
        return has_begun and any(name.startswith("wait:") for name in self._world.store.look(job_id).memos)

    async def _enqueue_probe(self, wish: Wish) -> None:
        self.wishes[wish.job.id] = wish
        await self._world.call(self._world.store.enqueue((wish.job,)))
        await asyncio.sleep(PROBE_WITHIN)

    async def _be_punctual(self) -> None:
        await FairWeather(self._world, self._trees, self._start_tree, places=SETTINGS.concurrency).play()

    async def _pause(self, least: float, most: float) -> None:
        await asyncio.sleep(self._random.uniform(least, most))
