"""How apps open their stores: under one lock, for which a fork waits, and not by accident.

Under pytest the app of a project is not to write to the store that it has in production, and a module that enqueues
while it is imported is told of.
"""

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from threading import RLock, get_ident
from types import FrameType

from standfast.errors import ConfigurationError

FORK_PATIENCE = 5.0

_OURS = __name__.partition(".")[0]
_ENQUEUES = f"{_OURS}.task"
_TEST_FOLDERS = {"test", "tests"}


class Opening:
    """One lock for a process.

    To open a store is to import it, and a child forked meanwhile would wait for ever for the thread that does: for
    our lock, or for Python's lock of the module.
    """

    def __init__(self) -> None:
        self._begin()

    def before_fork(self) -> None:
        """Wait until nobody opens a store, but not for ever."""
        if self.lock.acquire(timeout=FORK_PATIENCE):
            self._forking.append(get_ident())

    def after_in_parent(self) -> None:
        """Let others open their stores again."""
        if get_ident() in self._forking:
            self._forking.remove(get_ident())
            self.lock.release()

    def after_in_child(self) -> None:
        """Begin anew: whoever held the lock is not here."""
        self._begin()

    def _begin(self) -> None:
        self.lock = RLock()
        self._forking = list[int]()


OPENING = Opening()
os.register_at_fork(
    before=OPENING.before_fork, after_in_parent=OPENING.after_in_parent, after_in_child=OPENING.after_in_child
)


# -- not by accident -------------------------------------------------------------------------------------------


def made_by_an_import() -> bool:
    """Tell whether, under pytest, an app is being made by a module of the project's, and not for a test."""
    if "_pytest" not in sys.modules:
        return False
    for frame in callers():
        if _is_of_tests(frame):
            return False
        if frame.f_code.co_name == "<module>":
            return True
    return False


def refuse_in_test(store: str) -> None:
    """Raise ConfigurationError if this is a run of pytest: the store is the one that the project has in life.

    A file in the folder for temporary files is none.
    """
    runs = not {"PYTEST_VERSION", "PYTEST_CURRENT_TEST"}.isdisjoint(os.environ)
    if "_pytest" in sys.modules and runs and not _is_temporary(Path(store)):
        raise ConfigurationError(
            f"a test is about to use {store}, the store that the app is declared with: take the fixture"
            " standfast_kit, or `with StandfastKit(app):`, which gives the test a store of its own; a test that"
            " needs a database names it before the app is imported, as in STANDFAST_URL=sqlite:///test.db"
        )


def warn_of_enqueue_at_import() -> None:
    """Warn where a module enqueues while it is imported: each worker imports it, and does so again."""
    enqueues = False
    for frame in callers(ours=True):
        module = str(frame.f_globals.get("__name__", ""))
        enqueues = enqueues or module == _ENQUEUES
        if frame.f_code.co_name == "<module>" and not module.startswith(f"{_OURS}."):
            if enqueues and getattr(frame.f_globals.get("__spec__"), "_initializing", False):
                warnings.warn_explicit(
                    f"{module} enqueues a job while it is imported, and so does every process that imports it, each"
                    " worker too: enqueue in a function, or below `if __name__ == '__main__':`",
                    RuntimeWarning,
                    frame.f_code.co_filename,
                    frame.f_lineno,
                )
            return


def callers(*, ours: bool = False) -> Iterator[FrameType]:
    """Yield the frames of those who call, the innermost first, and without those of Standfast's own code."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the documented way
    while frame is not None:
        if ours or str(frame.f_globals.get("__name__", "")).partition(".")[0] != _OURS:
            yield frame
        frame = frame.f_back


def _is_of_tests(frame: FrameType) -> bool:
    """Tell whether code is a test module, rewritten by pytest, in a folder of tests, or written by a test."""
    loader, path = frame.f_globals.get("__loader__"), Path(frame.f_code.co_filename)
    named = path.name == "conftest.py" or path.stem.startswith("test_") or path.stem.endswith("_test")
    rewritten = type(loader).__module__.startswith("_pytest.")
    return named or rewritten or not _TEST_FOLDERS.isdisjoint(path.parts) or _is_temporary(path)


def _is_temporary(path: Path) -> bool:
    from tempfile import gettempdir  # noqa: PLC0415 - only tests ask

    return path.is_absolute() and path.resolve().is_relative_to(Path(gettempdir()).resolve())
