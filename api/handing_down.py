"""Passes the settings of the API's first process to the processes it starts: they must not read
them again, for a file may have changed since.

They are kept in memory, behind a descriptor of the first process that its children open by path:
keys and passwords are in no variable and no file, and nothing outlives a kill -9.
"""

import os
import pickle
from pathlib import Path

from manyhands.shared.settings import Settings
from manyhands.shared.settings.environment import hand_to_children, handed_by_parent


def hand_down(settings: Settings, run_directory: str) -> None:
    """For as long as this process lives."""
    memory = os.memfd_create("manyhands-api")
    with os.fdopen(os.dup(memory), "wb") as file:
        pickle.dump((settings, run_directory), file)
    hand_to_children(f"/proc/{os.getpid()}/fd/{memory}")


def handed_down() -> tuple[Settings, Path]:
    with Path(handed_by_parent()).open("rb") as file:
        settings, run_directory = pickle.load(file)
    return settings, Path(run_directory)
