"""The tag of a store, for those who need nothing else of it."""

from contextlib import closing
from pathlib import Path

from manyhands.shared.crawl.store.sqlite.directory import open_control


def tag_of(state: Path) -> str:
    """Makes the store if there is none yet. Raises StateError."""
    with closing(open_control(state)) as control:
        return control.tag()
