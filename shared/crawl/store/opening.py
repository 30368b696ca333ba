"""From CRAWL_STATE to the store: the one place that knows which kinds there are."""

from collections.abc import Sequence
from pathlib import Path

from manyhands.shared.crawl.store.protocol import Store
from manyhands.shared.crawl.store.sqlite.store import SqliteStore


def store_at(places: Sequence[str]) -> Store:
    """`places`: of CRAWL_STATE, and not empty. Nothing is opened yet."""
    [directory] = places
    return SqliteStore(Path(directory))


def check_store(places: Sequence[str]) -> None:
    """Raises StateError when it cannot be used."""
    store = store_at(places)
    try:
        store.open_control().close()
    finally:
        store.close()
