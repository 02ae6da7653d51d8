"""Finds the app that MODULE:APP names."""

import importlib
import sys

from holdfast.app import Holdfast
from holdfast.errors import ConfigurationError


def load_app(target: str, app_dir: str) -> Holdfast:
    """Import MODULE (also from `app_dir`) and return its attribute APP."""
    module_name, _, attribute = target.partition(":")
    if app_dir not in sys.path:
        sys.path.insert(0, app_dir)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name + ".").startswith(error.name + "."):
            raise ConfigurationError(
                f"there is no module {module_name!r}: run from the folder that holds it, or give --app-dir"
            ) from error
        raise ConfigurationError(f"{module_name} cannot be imported: {error}") from error
    except (Exception, SystemExit) as error:
        raise ConfigurationError(f"{module_name} cannot be imported: {type(error).__name__}: {error}") from error
    found: object = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, Holdfast):
        apps = [name for name, value in vars(module).items() if isinstance(value, Holdfast)]
        remedy = f"did you mean {module_name}:{apps[0]}?" if apps else "it must be a Holdfast(...) object"
        raise ConfigurationError(f"{module_name} has no app named {attribute!r}: {remedy}")
    return found
