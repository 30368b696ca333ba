"""Files that a client names and that must lie below one directory, despite links and dots."""

from pathlib import Path


class Outside(ValueError):
    """It lies elsewhere, or nowhere. Does not say where it leads to."""


def path_below(directory: Path, name: str) -> Path:
    """The real path; it need not exist. Raises Outside."""
    root = directory.resolve()
    try:
        path = (root / name).resolve()
    except (OSError, RuntimeError, ValueError):
        raise Outside("is not a usable path") from None
    if not path.is_relative_to(root):
        raise Outside("leads out of it")
    return path
