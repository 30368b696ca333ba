"""Reads the table `pages` of a PostgreSQL database, which needs no column or index for it.

A reading is made of passes over a crawl's rows by id. Ids say nothing of time, and transactions end
in another order than they began in; so a pass takes the rows of those transactions that had ended
when it began and were under way, or to come, when the one before it did (PostgreSQL keeps with each
row the number of its transaction). Each row is in one pass, and none comes later into one.

A place is the table, from which transaction on, up to which, and the last id of that pass.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import psycopg
from psycopg import sql
from psycopg.pq import Conninfo
from psycopg.rows import TupleRow

from manyhands.shared.crawl.page_fields import FIRST_VERSION, RecordKind
from manyhands.shared.jobs import rfc3339
from manyhands.shared.results.protocol import Page, Place, ResultsAway, WrongPlace
from manyhands.shared.sinks.server_url import ServerUrl, server_url

EXAMPLE = "postgres://user:password@host:5432/database"
DEFAULT_PORT = 5432
CONNECT_S = 10
# Of one statement, which may have to look through all that is there for a few new rows.
STATEMENT_S = 60
# Rows of the first statement and most rows of one, and about so many characters of them.
FIRST_ROWS = 8
MOST_ROWS = 500
CHARACTERS = 4 * 1024 * 1024
# By the key, row by row: a plan that sorts would read all rows of the crawl for each statement.
_SETTINGS = (
    "SET default_transaction_read_only TO on",
    f"SET statement_timeout TO '{STATEMENT_S}s'",
    "SET enable_sort TO off",
    "SET enable_seqscan TO off",
    "SET enable_bitmapscan TO off",
)
_TABLE = """
    SELECT to_regclass('pages')::oid::bigint,
           pg_snapshot_xmin(pg_current_snapshot())::text::bigint"""
_COLUMNS = """
    SELECT attname FROM pg_attribute
    WHERE attrelid = to_regclass('pages') AND attnum > 0 AND NOT attisdropped"""
# Rows have the last 32 bits of it; the difference says how far it is behind the other, or before.
_BEHIND = "mod(xmin::text::bigint - mod(%(begin)s, 4294967296) + 4294967296, 4294967296)"
_IN_PASS = {
    # What is not of a transaction that was under way when the pass began, or came later.
    True: f"{_BEHIND} >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint - %(begin)s",
    False: f"{_BEHIND} < %(length)s",
}
_PAGES = """
    SELECT id, {columns} FROM pages
    WHERE crawl = %(crawl)s AND id > %(last)s AND {is_in_pass}
    ORDER BY id LIMIT %(limit)s"""
# In the rows of a table that is older than the column.
_OF_OLD = {"schema": FIRST_VERSION, "kind": RecordKind.PAGE, "cuts": []}

Connection = psycopg.Connection[TupleRow]


class _At(NamedTuple):
    """`begin` is None in the first pass, `end` between two passes."""

    table: int
    begin: int | None
    end: int | None
    last: str


class Rows:
    """For `postgres://…`."""

    def __init__(self, url: str) -> None:
        self._url = server_url(
            url, schemes=("postgres",), default_port=DEFAULT_PORT, example=EXAMPLE
        )
        self.name = self._url.name

    def read(self, crawl: int, place: Place | None, fields: Sequence[str]) -> "RowReader":
        at = _read_place(place)
        with _said(self.name):
            connection = psycopg.connect(**_parameters(self._url), autocommit=True)
            try:
                return RowReader(self.name, connection, crawl, at, fields)
            except BaseException:
                connection.close()
                raise


class RowReader:
    """A `Reader`. State: the connection, and how far it has come."""

    def __init__(
        self,
        name: str,
        connection: Connection,
        crawl: int,
        at: _At | None,
        fields: Sequence[str],
    ) -> None:
        self._name = name
        self._connection = connection
        self._crawl = crawl
        self._fields = tuple(fields)
        for setting in _SETTINGS:
            connection.execute(sql.SQL(setting))
        table, self._now = _one(connection, _TABLE)
        known = {name for (name,) in connection.execute(_COLUMNS)}
        self._stored = [field for field in self._fields if field in known]
        if at is None and table is not None:
            at = _At(table, None, None, "")
        if at is not None and (at.table != table or max(at.begin or 0, at.end or 0) > self._now):
            raise WrongPlace("the table was made anew since")
        self._at = at

    @property
    def place(self) -> Place:
        return None if self._at is None else list(self._at)

    @property
    def end(self) -> Place:
        return None if self._at is None else [self._at.table, self._now, None, ""]

    def pages(self) -> Iterator[Page | None]:
        while self._at is not None:
            if self._at.end is None:
                if self._at.begin == self._now:
                    return
                self._at = self._at._replace(end=self._now)
            yield from self._pages_of_pass(self._at)
            self._at = self._at._replace(begin=self._at.end, end=None, last="")
            yield None

    def close(self) -> None:
        self._connection.close()

    def _pages_of_pass(self, at: _At) -> Iterator[Page]:
        limit, last = FIRST_ROWS, at.last
        while True:
            rows = self._some(at, last, limit)
            for last, *values in rows:
                self._at = at._replace(last=last)
                yield self._page(values)
            if len(rows) < limit:
                return
            average = max(1, sum(map(_characters, rows)) // len(rows))
            limit = max(1, min(MOST_ROWS, 2 * limit, CHARACTERS // average))

    def _some(self, at: _At, last: str, limit: int) -> list[TupleRow]:
        assert at.end is not None
        is_first = at.begin is None
        columns = sql.SQL(", ").join(map(sql.Identifier, self._stored or ["id"]))
        statement = sql.SQL(_PAGES).format(columns=columns, is_in_pass=sql.SQL(_IN_PASS[is_first]))
        begin = at.end if at.begin is None else at.begin
        given = {"crawl": self._crawl, "last": last, "limit": limit}
        with _said(self._name):
            found = self._connection.execute(
                statement, given | {"begin": begin, "length": at.end - begin}
            )
            return found.fetchall()

    def _page(self, values: list[Any]) -> Page:
        found = dict(zip(self._stored, values, strict=False))
        return {name: _plain(name, found.get(name)) for name in self._fields}


def _parameters(url: ServerUrl) -> dict[str, Any]:
    """Of libpq; what it does not know is a setting of the session, as it is to the sink."""
    known = {option.keyword.decode() for option in Conninfo.get_defaults()}
    query = dict(parse_qsl(url.query))
    settings = " ".join(f"-c {name}={_escaped(query[name])}" for name in query if name not in known)
    return {
        "connect_timeout": CONNECT_S,
        **{name: value for name, value in query.items() if name in known},
        **({"options": settings} if settings else {}),
        "host": ",".join(host for host, _ in url.hosts),
        "port": ",".join(str(port) for _, port in url.hosts),
        "dbname": url.path,
        **({"user": url.user} if url.user else {}),
        **({"password": url.password} if url.password else {}),
    }


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace(" ", "\\ ")


@contextmanager
def _said(name: str) -> Iterator[None]:
    try:
        yield
    except psycopg.errors.QueryCanceled as error:
        raise ResultsAway(
            f"{name}: it took more than {STATEMENT_S} s: CREATE INDEX ON pages (crawl, id) helps"
        ) from error
    except psycopg.Error as error:
        raise ResultsAway(f"{name}: {str(error).partition(chr(10))[0]}") from error


def _one(connection: Connection, statement: str) -> TupleRow:
    row = connection.execute(sql.SQL(statement)).fetchone()
    assert row is not None
    return row


def _characters(row: TupleRow) -> int:
    return sum(
        len(value) if isinstance(value, str) else 100 * len(value)
        for value in row
        if isinstance(value, str | list)
    )


def _plain(name: str, value: Any) -> Any:
    if value is None:
        return _OF_OLD.get(name)
    return rfc3339(value) if isinstance(value, datetime) else value


def _read_place(place: Place | None) -> _At | None:
    """Raises WrongPlace."""
    if place is None:
        return None
    try:
        table, begin, end, last = place
    except (TypeError, ValueError):
        raise WrongPlace("it is no place in a table") from None
    numbers = [number for number in (table, begin, end) if number is not None]
    are_numbers = all(type(number) is int and 0 <= number < 2**62 for number in numbers)
    if not are_numbers or not isinstance(last, str) or (begin or 0) > (end or begin or 0):
        raise WrongPlace("it is no place in a table")
    return _At(table, begin, end, last)
