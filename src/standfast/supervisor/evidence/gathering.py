"""Several collectors at once, each for so long and no longer. One that fails says so in its part."""

import asyncio
from collections.abc import Awaitable, Mapping


async def gather(collectors: Mapping[str, Awaitable[str]], within: float) -> dict[str, str]:
    """Return what each has found by then; nothing stands for nothing found."""
    texts = await asyncio.gather(*(_found(each, within) for each in collectors.values()))
    return {name: text for name, text in zip(collectors, texts, strict=True) if text}


async def _found(collector: Awaitable[str], within: float) -> str:
    try:
        async with asyncio.timeout(within):
            return await collector
    except TimeoutError:
        return "(not known: there was no answer in time)"
    except Exception as error:  # noqa: BLE001 - evidence is never worth another failure
        return f"(not known: {type(error).__name__}: {error})"
