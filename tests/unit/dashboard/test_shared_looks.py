"""What was just seen is shared; what changes seldom, for longer; and after a change nothing is."""

import asyncio

from standfast.admin.executor import AnswerCache


def test_a_look_is_shared_for_as_long_as_it_says():
    """One second, or so many times as long."""
    now, looks = [0.0], []
    shared = AnswerCache(fresh=1.0, clock=lambda: now[0])

    async def see(what, times):
        async def look():
            looks.append(what)

        await shared.see(what, look, times)

    async def run():
        for at in (0.0, 0.9, 5.0, 10.1):
            now[0] = at
            await see("often", 1)
            await see("seldom", 10)
        shared.forget()
        await see("seldom", 10)

    asyncio.run(run())
    assert looks == ["often", "seldom", "often", "often", "seldom", "seldom"]
