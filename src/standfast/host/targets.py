"""How another process would load an app that is loaded here: MODULE:APP, and the folder that MODULE is in."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from standfast.app import Standfast
from standfast.errors import ConfigurationError
from standfast.policy import Isolation


@dataclass(frozen=True, slots=True)
class Target:
    """MODULE:APP and where MODULE is looked for first; no name where nobody else could load it."""

    name: str
    app_dir: str = "."


def find_target(
    app: Standfast, given: str | None = None, modules: Mapping[str, ModuleType] | None = None
) -> Target:
    """Return how to load an app: as given, or from the module that has it, the one with most of its tasks first.

    The script that runs has no such name: to load it is to run it again. Raises ConfigurationError where a task of
    the app needs a process of its own, and nobody knows what to load there.
    """
    loaded = sys.modules if modules is None else modules
    if given is not None:
        module, colon, name = given.partition(":")
        if not (module and colon and name):
            raise ConfigurationError(f"target={given!r} is not MODULE:APP; write e.g. target='shop.jobs:app'")
        if module not in loaded and not _is_there(module):
            raise ConfigurationError(
                f"target={given!r}: there is no module {module!r}; write it as an import in this process would"
            )
        return Target(given, _folder_of(module, loaded.get(module)))
    homes = [task.fn.__module__ for task in app.tasks.values()]
    found = sorted(_places(app, loaded), key=lambda place: -homes.count(place[0]))
    if found:
        module, name = found[0]
        return Target(f"{module}:{name}", _folder_of(module, loaded[module]))
    isolated = [task.name for task in app.tasks.values() if task.policy.isolation is Isolation.PROCESS]
    if isolated:
        raise ConfigurationError(
            f"task {isolated[0]!r} runs in a process of its own, and what to load there is not known: define the"
            " app at the top of a module, or give target='MODULE:APP'"
        )
    return Target("")


def _is_there(module: str) -> bool:
    """Tell whether a module could be imported here. The packages that it is in are."""
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _places(app: Standfast, modules: Mapping[str, ModuleType]) -> Iterator[tuple[str, str]]:
    """Yield in which modules an app is, and under which name: the last imported first, others import from it."""
    for module_name, module in reversed(list(modules.items())):
        if module_name == "__main__" or not isinstance(module, ModuleType):
            continue
        for name, value in list(vars(module).items()):
            if value is app and not name.startswith("_"):
                yield module_name, name


def _folder_of(module_name: str, module: ModuleType | None) -> str:
    """Return the folder from which a module is imported by its name."""
    file = getattr(module, "__file__", None)
    if file is None:
        return str(Path.cwd())
    path = Path(file).absolute()
    depth = module_name.count(".") + (path.name == "__init__.py")
    return str(path.parents[depth])
