"""The process's environment: the only module that reads it."""

import base64
import os
import pickle
from pathlib import Path

from manyhands.shared.settings.sections import Settings

# Not a setting: how the first process of the API tells the others what it runs with.
_API_RUN = "MANYHANDS_API_RUN"


def environment() -> dict[str, str]:
    """Without empty variables: compose files pass on what nobody has set."""
    return {name: value for name, value in os.environ.items() if value}


def hand_down(settings: Settings, run_directory: str) -> None:
    """To the processes that this one will start. They must not read the settings again: a file may
    have changed since. Not by a file of our own either, which would outlive a kill -9."""
    os.environ[_API_RUN] = base64.b85encode(pickle.dumps((settings, run_directory))).decode()


def handed_down() -> tuple[Settings, Path]:
    settings, run_directory = pickle.loads(base64.b85decode(os.environ[_API_RUN]))
    return settings, Path(run_directory)
