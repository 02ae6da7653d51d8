"""Starting a cell: a process, its place in a control group where there are any, and the app loaded in it."""

import asyncio
import os
from itertools import count
from pathlib import Path
from typing import Any

from standfast.worker.isolated.cell import Cell
from standfast.worker.isolated.cgroup import CellGroup
from standfast.worker.isolated.messages import FromCell, Furnish, Ready
from standfast.worker.messages import Failed

_numbers = count(1)


class UnableError(Exception):
    """A cell could not be started, for this reason."""


async def start_cell(furnish: Furnish, home: Path | None) -> Cell:
    """Return a cell that is ready. Raises UnableError where there can be none."""
    group = None if home is None else CellGroup.make(home, f"standfast-{os.getpid()}-{next(_numbers)}")
    try:
        cell = await Cell.start(group, furnish.folder)
    except OSError as error:
        if group is not None:
            group.remove()
        raise UnableError(f"a process cannot be started: {error}") from error
    try:
        await _ready(cell, furnish)
    except BaseException:
        await cell.kill()
        cell.forget()
        raise
    return cell


async def _ready(cell: Cell, furnish: Furnish) -> None:
    """Furnish a cell, and wait until it is ready."""
    answer: asyncio.Future[FromCell] = asyncio.get_running_loop().create_future()

    def heard(message: FromCell) -> None:
        if not answer.done():
            answer.set_result(message)

    cell.listener = heard
    cell.send(furnish)
    limit = furnish.settings.hang_limit
    either: list[asyncio.Future[Any]] = [answer, cell.gone]
    await asyncio.wait(either, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
    cell.listener = None
    match answer.result() if answer.done() else None:
        case Ready():
            cell.is_ready()
        case Failed(reason=reason):
            raise UnableError(reason)
        case _ if cell.gone.done():
            raise UnableError(f"a process that loads the app {cell.gone.result()}\n{cell.last_stacks}".rstrip())
        case _:
            raise UnableError(f"a process did not load the app within {limit:g} s:\n{await cell.stacks()}")
