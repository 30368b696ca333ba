"""The process's environment: the only module that reads it."""

import os

# Not a setting: where the first process of the API keeps what the others run with.
_API_RUN = "MANYHANDS_API_RUN"


def environment() -> dict[str, str]:
    """Without empty variables: compose files pass on variables that are not set."""
    return {name: value for name, value in os.environ.items() if value}


def hand_to_children(path: str) -> None:
    os.environ[_API_RUN] = path


def handed_by_parent() -> str:
    return os.environ[_API_RUN]
