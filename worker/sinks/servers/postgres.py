"""Records as rows of a PostgreSQL database: the tables `pages` and `records`, and the view `edges`.

A batch is one transaction: COPY into a temporary table, and from there what is not in the table
yet. After any error the connection is discarded, and the next batch makes another one.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import asyncpg

from manyhands.shared.errors import ConfigError
from manyhands.shared.sinks.server_url import server_url
from manyhands.worker.records import PageRecord, PlainRecord, Record
from manyhands.worker.sinks.protocol import RecordsRefused
from manyhands.worker.sinks.rows import reason_of, rows_of
from manyhands.worker.sinks.servers.postgres_tables import (
    COLUMNS_OF_PAGES,
    CREATE_EDGES,
    EDGES,
    FIRST_COLUMNS,
    LATER_COLUMNS,
    PAGES,
    TABLES,
    Table,
    table_and_row,
)

EXAMPLE = "postgres://user:password@host:5432/database"
DEFAULT_PORT = 5432
CONNECT_S = 10.0
# For all that is done with a connection between two batches, or for one batch.
COMMAND_S = 60.0
CLOSE_S = 5.0
# The advisory lock for creating our tables; any number that nobody else locks in the database.
LOCK = 0x6D616E7968616E64
# A row is at fault, not the server: trying again cannot help. The last three are what asyncpg
# raises for values that it cannot send.
ROW_FAULTS = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.ProgramLimitExceededError,
    OverflowError,
    TypeError,
    ValueError,
)
# What an operator has to do about it, by the beginning of the error's SQLSTATE.
REMEDIES = {
    "28": "check user and password, with special characters URL-escaped",
    "3D": "create it, or name another one",
    "3F": "create the schema that the user's search_path names",
    "42501": "let the user create and alter tables, or make pages, records and edges for it",
    "42": "the tables there are not ours: name another database, or a schema with ?search_path=",
}

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
# With their places in the batch.
Rows = list[tuple[int, tuple[Any, ...]]]


class PostgresSink:
    """A `Sink`. State: the connection, if there is one."""

    kinds = frozenset({PageRecord, PlainRecord})

    def __init__(self, url: str) -> None:
        self._place = server_url(
            url, schemes=("postgres",), default_port=DEFAULT_PORT, example=EXAMPLE
        )
        self.name = self._place.name
        self._connection: Connection | None = None

    async def open(self) -> None:
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._connected()

    async def write(self, records: Sequence[Record]) -> None:
        rows: dict[str, Rows] = {}
        for position, (table, row) in enumerate(rows_of(records, table_and_row)):
            rows.setdefault(table.name, []).append((position, row))
        await self.open()
        connection = self._connection
        assert connection is not None
        try:
            await _write(connection, rows)
        except RecordsRefused:
            raise
        except BaseException:
            # Also when cancelled: the state of the transaction is unknown.
            connection.terminate()
            raise

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close(timeout=CLOSE_S)

    async def _connected(self) -> Connection:
        """A connection that is ready for a batch. Raises ConfigError."""
        place = self._place
        try:
            async with _within(CONNECT_S):
                connection = await asyncpg.connect(
                    # Options such as `sslmode`; all else is a setting of the session.
                    dsn=f"postgres://?{place.query}" if place.query else None,
                    host=[host for host, _ in place.hosts],
                    port=[port for _, port in place.hosts],
                    user=place.user or None,
                    password=place.password or None,
                    database=place.path,
                )
            try:
                async with _within(COMMAND_S):
                    await _prepare(connection)
            except BaseException:
                connection.terminate()
                raise
        except asyncpg.ClientConfigurationError as error:
            raise ConfigError(f"SINKS: {self.name}: {reason_of(error)}") from error
        except asyncpg.PostgresError as error:
            remedy = _remedy(error.sqlstate or "")
            if remedy is None:
                raise
            raise ConfigError(f"SINKS: {self.name}: {reason_of(error)}: {remedy}") from error
        return connection


async def _prepare(connection: Connection) -> None:
    """Create the missing tables. Only these: a user who may only insert can be given existing
    tables."""
    # By statement, not at connecting: a PgBouncer takes only few settings there. It has to be one
    # that pools sessions, because the temporary tables last as long as the session.
    await connection.execute("SET synchronous_commit TO on")
    await connection.execute("BEGIN")
    await connection.execute(f"SELECT pg_advisory_xact_lock({LOCK})")
    is_old = False
    for table in TABLES:
        if not await _exists(connection, table.name):
            await connection.execute(table.create)
        elif table is PAGES:
            is_old = await _add_later_columns(connection) or is_old
        await connection.execute(table.create_incoming)
        # Without rows: to check now that the columns exist and that we may insert.
        await connection.execute(table.insert)
    if is_old or not await _exists(connection, EDGES):
        await connection.execute(CREATE_EDGES)
    await connection.execute("COMMIT")


async def _add_later_columns(connection: Connection) -> bool:
    """Those that an older release did not know; whether there were any."""
    found = await connection.fetch(COLUMNS_OF_PAGES)
    known = {row["attname"] for row in found}
    if not known >= FIRST_COLUMNS:
        # Somebody else's: the next statement says so.
        return False
    missing = [statement for name, statement in LATER_COLUMNS.items() if name not in known]
    for statement in missing:
        await connection.execute(statement)
    return bool(missing)


async def _exists(connection: Connection, name: str) -> bool:
    return await connection.fetchval("SELECT to_regclass($1)", name) is not None


async def _write(connection: Connection, rows: dict[str, Rows]) -> None:
    """Raises RecordsRefused; the connection is still usable then."""
    try:
        await _transact(connection, rows, "COMMIT")
    except ROW_FAULTS as error:
        async with _within(COMMAND_S):
            await connection.execute("ROLLBACK")
        reasons: dict[int, str] = {}
        for name, suspects in rows.items():
            reasons |= await _faults(connection, name, suspects)
        if not reasons:
            raise
        raise RecordsRefused(reasons) from error


async def _transact(connection: Connection, rows: dict[str, Rows], end: str) -> None:
    """With plain statements, not with asyncpg's context manager: on a time-out that one asks the
    server for a rollback, and waits for an answer that does not come."""
    async with _within(COMMAND_S):
        await connection.execute("BEGIN")
        for table in TABLES:
            if table.name in rows:
                await _insert(connection, table, rows[table.name])
        await connection.execute(end)


async def _insert(connection: Connection, table: Table, rows: Rows) -> None:
    await connection.copy_records_to_table(table.incoming, records=[row for _, row in rows])
    await connection.execute(table.insert)


async def _faults(connection: Connection, name: str, rows: Rows) -> dict[int, str]:
    """Find the rows that the table cannot take, by bisection; nothing is kept."""
    try:
        await _transact(connection, {name: rows}, "ROLLBACK")
    except ROW_FAULTS as error:
        async with _within(COMMAND_S):
            await connection.execute("ROLLBACK")
        if len(rows) == 1:
            return {rows[0][0]: reason_of(error)}
        middle = len(rows) // 2
        first = await _faults(connection, name, rows[:middle])
        return first | await _faults(connection, name, rows[middle:])
    return {}


@asynccontextmanager
async def _within(seconds: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise TimeoutError(f"no answer within {seconds:g} s") from None


def _remedy(sqlstate: str) -> str | None:
    """The one for the longest beginning that is known."""
    for length in (5, 2):
        if sqlstate[:length] in REMEDIES:
            return REMEDIES[sqlstate[:length]]
    return None
