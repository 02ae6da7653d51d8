"""Background jobs for Python that stand fast.

from standfast import Standfast

app = Standfast("sqlite:///standfast.db")

@app.task(queue="mail", max_attempts=5, timeout=30)
async def send_email(to: str, subject: str) -> str:
    return f"sent {subject} to {to}"

handle = send_email.enqueue("a@example.com", subject="hi")
print(handle.result(timeout=10))       # while `standfast worker MODULE:app` runs
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from standfast.public import *  # noqa: F403 - all of them, and nothing else
    from standfast.public import __all__ as __all__

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Load the public names when the first is asked for: commands and supervisors need none and start sooner."""
    if (
        find_spec(f"standfast.{name}") is None
    ):  # else `from standfast import a_module` asks, and would load them all
        public = import_module("standfast.public")
        globals().update({each: getattr(public, each) for each in ("__all__", *public.__all__)})
    if name not in globals():
        if way := import_module("standfast.spelling").OTHER_IMPORTS.get(name):
            raise ImportError(f"cannot import name {name!r} from 'standfast'; {way}", name=__name__)
        raise AttributeError(f"module 'standfast' has no attribute '{name}'", name=name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})
