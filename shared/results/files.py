"""What readers of files have in common: where they are, and a look into the manifest. Blocking."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from manyhands.shared.crawl.store.errors import StateError
from manyhands.shared.crawl.store.sqlite.database import Database, open_for_reading
from manyhands.shared.results.protocol import Place, Reader, ResultsAway
from manyhands.shared.sinks.manifest_tables import SCHEMA
from manyhands.shared.sinks.places import parse_place

MakeReader = Callable[[Path, int, Place | None, Sequence[str]], Reader]


class FileSource:
    """A `Source`, for `kind:PATH`; a bucket is another kind, which is not read."""

    def __init__(self, url: str, make_reader: MakeReader) -> None:
        place = parse_place(url, {})
        self.name = place.name
        self._path = place.path
        self._make_reader = make_reader

    def read(self, crawl: int, place: Place | None, fields: Sequence[str]) -> Reader:
        return self._make_reader(self._path, crawl, place, fields)


@contextmanager
def manifest_at(path: Path) -> Iterator[Database | None]:
    """None: nothing has been written yet. Raises ResultsAway."""
    try:
        database = open_for_reading(path, SCHEMA)
        if database is None:
            yield None
            return
        with closing(database):
            yield database
    except StateError as error:
        raise ResultsAway(str(error)) from error
