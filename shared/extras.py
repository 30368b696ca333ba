"""Modules that need a package which not every installation has."""

import importlib
from types import ModuleType

from manyhands.shared.errors import ConfigError


def import_extra(module: str, user: str, extra: str) -> ModuleType:
    """`user` is the setting or scheme that needs it, for the message. Raises ConfigError."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"{user} needs {error.name}, which is not installed: pip install '.[{extra}]'"
        ) from error
