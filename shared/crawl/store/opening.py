"""From CRAWL_STATE to the store: the one place that knows which kinds there are."""

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from manyhands.shared.crawl.store.protocol import Store
from manyhands.shared.crawl.store.sqlite.store import SqliteStore
from manyhands.shared.errors import ConfigError

# By name: what it needs is not installed everywhere.
_POSTGRES = "manyhands.shared.crawl.store.postgres.store"


def store_at(places: Sequence[str]) -> Store:
    """`places`: of CRAWL_STATE, and not empty. Nothing is opened yet. Raises ConfigError."""
    if "://" in places[0]:
        return _postgres(places)
    [directory] = places
    return SqliteStore(Path(directory))


def check_store(places: Sequence[str]) -> None:
    """Raises StateError when it cannot be used."""
    store = store_at(places)
    try:
        store.open_control().close()
    finally:
        store.close()


def _postgres(urls: Sequence[str]) -> Store:
    try:
        module = importlib.import_module(_POSTGRES)
    except ImportError as error:
        raise ConfigError(
            f"CRAWL_STATE: postgresql needs {error.name}, which is not installed:"
            " pip install '.[postgres]'"
        ) from error
    return cast("Callable[[Sequence[str]], Store]", module.PostgresStore)(urls)
