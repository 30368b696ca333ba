"""From CRAWL_STATE to the store: the one place that knows which kinds there are."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import cast

from manyhands.shared.crawl.store.protocol import Store
from manyhands.shared.crawl.store.sqlite.one_host import refuse_other_machines
from manyhands.shared.crawl.store.sqlite.store import SqliteStore
from manyhands.shared.crawl.store.sqlite.whole import SqliteWhole
from manyhands.shared.crawl.store.whole.protocol import WholeStore
from manyhands.shared.extras import import_extra

# By name: what it needs is not installed everywhere.
_POSTGRES = "manyhands.shared.crawl.store.postgres.store"
_POSTGRES_WHOLE = "manyhands.shared.crawl.store.postgres.whole"


def store_at(places: Sequence[str]) -> Store:
    """`places`: of CRAWL_STATE, and not empty. Nothing is opened yet. Raises ConfigError."""
    if "://" in places[0]:
        return cast("Store", _of_postgres(_POSTGRES).PostgresStore(places))
    [directory] = places
    return SqliteStore(Path(directory))


def whole_at(places: Sequence[str]) -> WholeStore:
    """As `store_at`, for what is done with a state as a whole."""
    if "://" in places[0]:
        return cast("WholeStore", _of_postgres(_POSTGRES_WHOLE).PostgresWhole(places))
    [directory] = places
    return SqliteWhole(Path(directory))


def _of_postgres(module: str) -> ModuleType:
    return import_extra(module, "CRAWL_STATE: postgresql", "postgres")


def check_store(places: Sequence[str], wait_s: float) -> None:
    """For those who own no shards; `wait_s` as in `refuse_other_machines`. Raises StateError when
    it cannot be used, ConfigError when it is another machine's."""
    directory = store_at(places).directory
    if directory is not None:
        refuse_other_machines(directory, wait_s)
    tag_of(places)


def shards_of(places: Sequence[str], wanted: int) -> int:
    """As many as a service that wants so many will find there. Raises StateError."""
    with closing(store_at(places)) as store:
        if store.can_reshard:
            return wanted
        with closing(store.open_control()) as control:
            return control.layout(wanted, may_change=False).shards


def tag_of(places: Sequence[str]) -> str:
    """For those who need nothing else of the store, which is made if there is none. Raises
    StateError."""
    with closing(store_at(places)) as store, closing(store.open_control()) as control:
        return control.tag()
