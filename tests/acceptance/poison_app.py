"""The app of the fleets, and tasks whose arguments and results take a process down: models of pydantic.

They are apart, because to load pydantic takes a worker longer than to start without it.
"""

import os
import sys
from typing import Literal, Self

import fleet_app
from pydantic import BaseModel, model_serializer, model_validator

from standfast import Standfast


class Deadly(BaseModel):
    """Arguments whose reading takes a worker's process down, and a result whose writing does."""

    when: Literal["read", "written"]

    @model_validator(mode="after")
    def read(self) -> Self:
        if self.when == "read" and IN_A_WORKER:
            os._exit(9)
        return self

    @model_serializer
    def write(self) -> dict[str, str]:
        if self.when == "written" and IN_A_WORKER:
            os._exit(9)
        return {"when": self.when}


IN_A_WORKER = (
    sys.modules["__main__"].__spec__ is not None
    and "standfast.hosts.child" in sys.modules["__main__"].__spec__.name
)


async def take_deadly(given: Deadly) -> Deadly:
    return given


def take_deadly_in_thread(given: Deadly) -> Deadly:
    return given


def make_app(url: str | None = None) -> Standfast:
    app = fleet_app.make_app(url)
    for handler in (take_deadly, take_deadly_in_thread):
        app.task(handler)
    return app


app = make_app()
