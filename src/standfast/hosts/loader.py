"""Finds the app that MODULE:APP names."""

import importlib
import sys
import traceback
from pathlib import Path
from types import ModuleType

from standfast.app import Standfast
from standfast.errors import ConfigurationError

_OURS = str(Path(__file__).resolve().parents[1])


def load_app(
    target: str, app_dir: str, *, unfound: str = "run from the folder that holds it, or give --app-dir"
) -> Standfast:
    """Import MODULE (also from `app_dir`) and return its attribute APP. `unfound` says what to do without one."""
    return _app_in(load_module(target, app_dir, unfound), target.partition(":")[2])


def load_module(target: str, app_dir: str, unfound: str) -> ModuleType:
    """Import MODULE of MODULE:NAME. Raises ConfigurationError, with what to do."""
    module_name, _, attribute = target.partition(":")
    if app_dir not in sys.path:
        sys.path.insert(0, app_dir)
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name + ".").startswith(error.name + "."):
            remedy = unfound
            if module_name.endswith(".py"):
                remedy = f"write {module_name.removesuffix('.py')}:{attribute}"
            raise ConfigurationError(f"there is no module {module_name!r}: {remedy}") from error
        raise ConfigurationError(f"{module_name} cannot be imported: {error}{_where(error)}") from error
    except (Exception, SystemExit) as error:
        if isinstance(error, ConfigurationError) and not error.in_code:
            raise  # it names the file or the variable, and the module can do nothing about it
        what = f"{type(error).__name__}: {error}{_where(error)}"
        raise ConfigurationError(f"{module_name} cannot be imported: {what}") from error


def _app_in(module: ModuleType, attribute: str) -> Standfast:
    found: object = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, Standfast):
        apps = [name for name, value in vars(module).items() if isinstance(value, Standfast)]
        remedy = f"did you mean {module.__name__}:{apps[0]}?" if apps else "it must be a Standfast(...) object"
        raise ConfigurationError(f"{module.__name__} has no app named {attribute!r}: {remedy}")
    return found


def _where(error: BaseException) -> str:
    """Return where in the user's code an import failed: the last line that is neither Python's own nor ours."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if "importlib" not in frame.filename and not frame.filename.startswith(_OURS)
    ]
    last = frames[-1] if frames else None
    return f" ({last.filename}, line {last.lineno})" if last is not None else ""
