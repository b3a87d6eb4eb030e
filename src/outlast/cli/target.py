"""Finds the `Outlast` object that a command line names, or says in one sentence why there is none."""

import importlib
import sys
import traceback
from pathlib import Path
from typing import Final

from outlast.assembly.outlast import Outlast
from outlast.errors import SettingsError

FORM: Final = "MODULE:ATTRIBUTE"


def load(target: str) -> Outlast:
    """Import `module:attribute` as seen from the current folder. Raises `SettingsError`."""
    module, colon, attribute = target.partition(":")
    if not (colon and all(name.isidentifier() for name in [*module.split("."), *attribute.split(".")])):
        raise SettingsError(f"{FORM} names the object to serve: `app:outlast` is `outlast` in app.py.")
    found = _import(module)
    for name in attribute.split("."):
        if not hasattr(found, name):
            raise SettingsError(f"There is no `{attribute}` in {module}. {_instead(module)}")
        found = getattr(found, name)
    if not isinstance(found, Outlast):
        raise SettingsError(f"`{target}` is no Outlast object but of type {type(found).__name__}. {_instead(module)}")
    return found


def _import(module: str) -> object:
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
            raise SettingsError(
                f"There is no module {error.name} here: give the name as in `import {module}`."
            ) from None
        raise SettingsError(f"{module} cannot be imported: {_place(error)}.") from error
    except SyntaxError as error:
        raise SettingsError(
            f"{module} cannot be imported: {error.msg} ({error.filename}, line {error.lineno})."
        ) from error
    except SettingsError:
        raise  # its sentence says what to change
    except Exception as error:  # whatever a user's module does when it is imported
        raise SettingsError(f"{module} cannot be imported: {_place(error)}.") from error


def _place(error: Exception) -> str:
    """Say what was raised and where, without a traceback."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {str(error).rstrip('.')} ({frame.filename}, line {frame.lineno})"


def _instead(module: str) -> str:
    names = [name for name, value in vars(sys.modules[module]).items() if isinstance(value, Outlast)]
    return f"Did you mean `{module}:{names[0]}`?" if names else "Nothing in it is an Outlast object."
