"""Connections to one PostgreSQL database, and transactions over them: its errors as ours, and lost
connections found again.

Nothing depends on a session, so that a pooler in transaction mode may stand between: no prepared
statements, no locks or settings that outlive a transaction. Statements are pipelined: what nobody
waits for goes along with the next question, or with the COMMIT.
"""

import contextlib
import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

import psycopg
from psycopg import errors
from psycopg.abc import RV, PQGen
from psycopg.pq import TransactionStatus

from manyhands.shared.crawl.store.absence import Absence
from manyhands.shared.crawl.store.errors import StateAway, StateBusy, StateError, Undone
from manyhands.shared.crawl.store.postgres.place import Place

# A process has no more of them, to each database.
MOST_CONNECTIONS = 6
# So often a way there and back is taken to know how long it is: the shortest counts.
ROUND_TRIPS = 3
# How long a way back is looked for, counted from when the server was missed first, and how long the
# first and the longest wait between attempts are, s.
RECONNECT_S = 5.0
FIRST_WAIT_S = 0.05
LONGEST_WAIT_S = 1.0
# A server that takes a statement and says nothing for so long counts as away (a lock is waited for
# a little less); a connection on which it says nothing for longer is given up.
SILENT_S = 6.0
ANSWER_S = 20.0
# A transaction of ours takes milliseconds. One whose client says nothing for so long was cut off or
# stopped, and must not be in the way of the next owner.
IDLE_IN_TRANSACTION_S = 5
LOCK_WAIT_S = 5
# All that a transaction of ours looks for, it looks for row by row in an index. A planner that does
# not know yet how large a table is, or finds it small, would rather read all of it and compare: a
# hundred times slower for the seen keys of a young shard.
_OTHER_PLANS = ("enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin")
_SETTINGS = {
    "idle_in_transaction_session_timeout": f"{IDLE_IN_TRANSACTION_S}s",
    "lock_timeout": f"{LOCK_WAIT_S}s",
    **dict.fromkeys(_OTHER_PLANS, "off"),
}
_OPENING = "SELECT " + ", ".join(
    f"set_config('{name}', '{value}', true)" for name, value in _SETTINGS.items()
)
# The server is there, and cannot be used yet, or not any more: it starts, ends, or has become a
# standby.
_AWAY = (
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.IdleInTransactionSessionTimeout,
    errors.ReadOnlySqlTransaction,
    errors.TooManyConnections,
)

# As the server says it to somebody who connects, and a pooler whose server is away.
_FOR_NOW = (
    "starting up",
    "shutting down",
    "recovery",
    "too many",
    "remaining connection slots",
    "terminating connection",
    "server login",
    "query_wait_timeout",
    "server_",
)
# Between this side and the server: a certificate that is not trusted, or no TLS where it is wanted.
_NOT_TRUSTED = ("certificate", "does not support SSL")

# It warns of errors that follow from those that it raises; here they all end in one of ours.
logging.getLogger("psycopg").setLevel(logging.ERROR)

Result = TypeVar("Result")
Row = tuple[Any, ...]
# In order, or by name.
Parameters = Sequence[Any] | Mapping[str, Any]
Connection = psycopg.Connection[Row]


class CommitInDoubt(StateAway):
    """The connection was lost after COMMIT was sent: it may have happened or not."""


class _Connection(Connection):
    """One that is given up when answers stay out: the kernel only sees to it that what we send
    arrives, and a proxy or a server that hangs acknowledges that."""

    # Of the server; None until we are connected.
    absence: Absence | None = None

    def wait(self, gen: PQGen[RV], *arguments: Any, **named: Any) -> RV:
        return super().wait(self._bounded(gen), *arguments, **named)

    def _bounded(self, gen: PQGen[RV]) -> PQGen[RV]:
        asked_at = time.monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready:
                    # Ten times a second while nothing comes.
                    self._hear_nothing(time.monotonic() - asked_at)
                wanted = gen.send(ready)
        except StopIteration as end:
            answer: RV = end.value
            return answer

    def _hear_nothing(self, waited_s: float) -> None:
        if waited_s < SILENT_S or self.absence is None:
            return
        said = f"it does not answer (for {waited_s:.0f} s)"
        self.absence.is_silent(said, time.monotonic())
        if waited_s >= ANSWER_S:
            self.close()
            raise psycopg.OperationalError(said)


class Session:
    """An open transaction. State: the connection, and whether anything was written."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.has_written = False

    def send(self, sql: str, parameters: Parameters = ()) -> None:
        """A change that nobody waits for."""
        self.has_written = True
        self._execute(sql, parameters)

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        return self._execute(sql, parameters).fetchall()

    def changed(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """A change, and what it returns."""
        self.has_written = True
        return self.rows(sql, parameters)

    def count(self, sql: str, parameters: Parameters = ()) -> int:
        """A change; how many rows it changed."""
        return len(self.changed(f"{sql} RETURNING 1", parameters))

    def value(self, sql: str, parameters: Parameters = ()) -> Any:
        """The first column of the first row, or None."""
        rows = self.rows(sql, parameters)
        return rows[0][0] if rows else None

    def _execute(self, sql: str, parameters: Parameters) -> psycopg.Cursor[Row]:
        return self._connection.execute(sql, parameters or None)


class _Open:
    """A transaction from its BEGIN to its end. State: the connection and its pipeline, and whether
    COMMIT was sent."""

    def __init__(self, connection: Connection, opening: Sequence[tuple[str, Parameters]]) -> None:
        self.connection = connection
        self.session = Session(connection)
        self.is_committing = False
        self._pipeline = connection.pipeline()
        self._pipeline.__enter__()
        connection.execute("BEGIN")
        sent = [connection.execute(_OPENING)]
        sent += [connection.execute(sql, given) for sql, given in opening]
        self.answers = [cursor.fetchone() or () for cursor in sent][1:]

    def commit(self) -> None:
        self.is_committing = True
        self.connection.execute("COMMIT")
        # Waits for all that was sent.
        self._pipeline.__exit__(None, None, None)

    def roll_back(self) -> None:
        with contextlib.suppress(psycopg.Error):
            self._pipeline.__exit__(None, None, None)
        with contextlib.suppress(psycopg.Error):
            self.connection.execute("ROLLBACK")


class Database:
    """State: the connections that nobody uses at the moment, room for more, whether the server is
    away, and how far it was when that was measured. `is_patient`: a statement may take minutes, as
    those of a check do that read a whole shard, and silence means nothing."""

    def __init__(self, place: Place, *, is_patient: bool = False) -> None:
        self.place = place
        self._is_patient = is_patient
        self.absence = Absence(place.shown)
        # There and back; 0: not measured.
        self.round_trip_s = 0.0
        self._room = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._idle: list[Connection] = []
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def transaction(self, *opening: tuple[str, Parameters]) -> Iterator[tuple[Session, list[Row]]]:
        """All or nothing, after the statements of `opening`, whose first rows are given with it.
        Raises Undone when it was lost before its COMMIT, and CommitInDoubt after that."""
        with self._room:
            begun = self._patiently(lambda connection: _Open(connection, opening))
            try:
                yield begun.session, begun.answers
                begun.commit()
            except BaseException as error:
                begun.roll_back()
                self._give_back(begun.connection)
                if not isinstance(error, psycopg.Error):
                    raise
                if _is_away(error, begun.connection):
                    lost = CommitInDoubt if begun.is_committing else Undone
                    raise lost(self._said(error)) from error
                self._raise_ours(error)
            self._give_back(begun.connection)

    def ask(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """A question outside of any transaction."""

        def asked(connection: Connection) -> tuple[Connection, list[Row]]:
            cursor = connection.execute(sql, parameters or None)
            return connection, cursor.fetchall()

        with self._room:
            connection, rows = self._patiently(asked)
            self._give_back(connection)
        return rows

    def value(self, sql: str, parameters: Parameters = ()) -> Any:
        """The first column of the first row, or None."""
        rows = self.ask(sql, parameters)
        return rows[0][0] if rows else None

    def measure_round_trip(self) -> None:
        took_s = []
        for _ in range(ROUND_TRIPS):
            asked_at = time.monotonic()
            self.ask("SELECT 1")
            took_s.append(time.monotonic() - asked_at)
        self.round_trip_s = min(took_s)

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _patiently(self, work: Callable[[Connection], Result]) -> Result:
        """With a connection that works; `work` is repeated where it turns out to be lost. Raises
        StateAway when there is none for a while."""
        self._refuse_if_hopeless()
        began_at, wait_s, has_failed = time.monotonic(), FIRST_WAIT_S, False
        while True:
            connection: Connection | None = None
            try:
                connection = self._connection()
                result = work(connection)
                self.absence.worked(time.monotonic())
                return result
            except psycopg.Error as error:
                is_away = connection is None or _is_away(error, connection)
                if connection is not None:
                    connection.close()
                if not is_away or _is_refusal(error):
                    self._raise_ours(error)
                # They went the same way.
                self.close()
                now = time.monotonic()
                if connection is None or has_failed:
                    # Otherwise a new connection may do.
                    self.absence.failed(_one_line(error), now)
                has_failed = True
                away_since = self.absence.since
                if now + wait_s > (away_since or began_at) + RECONNECT_S:
                    raise StateAway(self._said(error)) from error
            time.sleep(wait_s * random.uniform(0.5, 1.0))
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)

    def _refuse_if_hopeless(self) -> None:
        """While the server stays away, one attempt a second is enough for all threads."""
        now, absence = time.monotonic(), self.absence
        is_tried = absence.was_tried_within(LONGEST_WAIT_S, now)
        if absence.lasts_s(now) > RECONNECT_S and is_tried:
            raise StateAway(f"{self.place.shown} cannot be used: {absence.why}")

    def _connection(self) -> Connection:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        connection = _Connection.connect(
            self.place.conninfo, autocommit=True, prepare_threshold=None
        )
        if not self._is_patient:
            connection.absence = self.absence
        return connection

    def _give_back(self, connection: Connection) -> None:
        if connection.closed or connection.info.transaction_status is not TransactionStatus.IDLE:
            connection.close()
            return
        with self._lock:
            self._idle.append(connection)

    def _said(self, error: psycopg.Error) -> str:
        return f"{self.place.shown} cannot be used: {_one_line(error)}"

    def _raise_ours(self, error: psycopg.Error) -> NoReturn:
        if isinstance(error, errors.LockNotAvailable):
            raise StateBusy(self._said(error)) from error
        if isinstance(error, psycopg.OperationalError | errors.UndefinedTable):
            raise StateError(self._said(error)) from error
        if isinstance(error, errors.InsufficientPrivilege | errors.InvalidSchemaName):
            raise StateError(self._said(error)) from error
        raise error


def _one_line(error: psycopg.Error) -> str:
    return " ".join(str(error).split())


def _is_away(error: psycopg.Error, connection: Connection) -> bool:
    return connection.closed or isinstance(error, _AWAY)


def _is_refusal(error: psycopg.Error) -> bool:
    """It does not let us in, and will not the next time."""
    said = str(error)
    if any(reason in said for reason in _NOT_TRUSTED):
        return True
    return "FATAL" in said and not any(reason in said for reason in _FOR_NOW)
