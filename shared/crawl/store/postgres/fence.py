"""Who may write a shard. Every transaction of its owner holds an advisory lock together with others
and reads the epoch after that; a takeover holds it alone. So all transactions of earlier owners
have ended when the epoch is raised, and later ones see that it was.

Lock and epoch are two statements: what one statement sees was fixed before it waited.

A transaction that writes has a number, which the shard's row keeps. So one whose COMMIT was not
answered is known to have happened or not.
"""

import contextlib
import time
from collections.abc import Iterator
from typing import NamedTuple

from manyhands.shared.crawl.store.errors import StateAway, StateBusy, StateError, Undone
from manyhands.shared.crawl.store.model import LastOwner, LeaseLost
from manyhands.shared.crawl.store.postgres.database import (
    CommitInDoubt,
    Database,
    Parameters,
    Session,
)
from manyhands.shared.crawl.store.postgres.schema import SHARD, Names, shard_names

# An owner that was cut off in a transaction gets so long to end it, s. Then its connection is ended
# from here. All attempts together: what a takeover may take longer than the lease.
PATIENCE_S = 0.4
ATTEMPTS = 5
# Between two attempts to find out what became of a COMMIT, s.
AGAIN_S = 0.1

_LOCK_TOGETHER = "SELECT pg_advisory_xact_lock_shared(%s)"
_LOCK_ALONE = "SELECT set_config('lock_timeout', %s, true), pg_advisory_xact_lock(%s)"
_KEPT = "SELECT epoch, batch, next_url FROM @shards WHERE generation = %s AND shard = %s"
_LAST_OWNER = (
    "SELECT epoch, longest_fetch_s, version FROM @shards WHERE generation = %s AND shard = %s"
)
_SET_OWNER = (
    "UPDATE @shards SET epoch = %s, longest_fetch_s = %s WHERE generation = %s AND shard = %s"
)
# Of an advisory lock's key, `classid` has the high and `objid` the low half.
_END_HOLDERS = (
    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND classid::bigint = ((%s::bigint >> 32) & 4294967295)"
    " AND objid::bigint = (%s::bigint & 4294967295) AND objsubid = 1 AND pid <> pg_backend_pid()"
)


class Kept(NamedTuple):
    """Of a shard's row: the number of the last transaction that wrote, the id of the next URL."""

    batch: int
    next_url: int


class Fence:
    """Of one shard. State: none but the database's."""

    def __init__(self, database: Database, generation: int, shard: int) -> None:
        self.database = database
        self.names = shard_names(database.place.schema, generation, shard)
        self._place = (generation, shard)
        self._control = Names(database.place.schema)
        self._key = database.place.lock_key("shard", generation, shard)
        self._shown = f"shard {shard} of generation {generation} in {database.place.shown}"

    @contextlib.contextmanager
    def passed(self, epoch: int) -> Iterator[tuple[Session, Kept]]:
        """A transaction of the owner. Raises LeaseLost when the epoch is another by now."""
        with self.database.transaction((_LOCK_TOGETHER, (self._key,)), self._kept_statement()) as (
            session,
            (_, kept),
        ):
            if not kept or kept[0] != epoch:
                stored = kept[0] if kept else "none"
                raise LeaseLost(
                    f"{self._shown} has another owner (epoch {stored}, ours is {epoch})"
                )
            yield session, Kept(*kept[1:])

    def keep(self, session: Session, batch: int, next_url: int) -> None:
        """At the end of a transaction that has written."""
        session.send(
            self._control.sql(
                "UPDATE @shards SET batch = %s, next_url = %s WHERE generation = %s AND shard = %s"
            ),
            (batch, next_url, *self._place),
        )

    def has_happened(self, epoch: int, batch: int) -> bool:
        """Of a transaction whose COMMIT was not answered. It is over when the lock is ours alone,
        however long it is on its way. Raises LeaseLost when somebody has taken the shard over:
        then it is the next owner's."""
        attempts = 0
        while True:
            try:
                return self._looked_up(epoch, batch)
            except StateAway as error:
                attempts += 1
                is_lost_again = isinstance(error, Undone | CommitInDoubt) and attempts < ATTEMPTS
                if not is_lost_again and not self.database.absence.is_waited_for:
                    raise StateAway(
                        f"{self._shown}: whether its last transaction has happened is not known:"
                        f" {error}"
                    ) from error
            time.sleep(AGAIN_S)

    @contextlib.contextmanager
    def taken_over(self, epoch: int, longest_fetch_s: float) -> Iterator[tuple[Session, LastOwner]]:
        """A transaction in which nobody else writes the shard, and which makes it this epoch's.
        Raises LeaseLost when it is a later one's or its generation is gone, StateBusy when the
        lock cannot be had."""
        with self._alone() as session:
            rows = session.rows(self._control.sql(_LAST_OWNER), self._place)
            last = LastOwner(*rows[0][:2]) if rows else LastOwner(0, None)
            if last.epoch > epoch:
                raise LeaseLost(f"{self._shown} belongs to a later owner")
            if not rows:
                self._make(session, epoch)
            elif rows[0][2] != len(SHARD):
                self._bring_up(session, rows[0][2])
            session.send(self._control.sql(_SET_OWNER), (epoch, longest_fetch_s, *self._place))
            yield session, last

    def _looked_up(self, epoch: int, batch: int) -> bool:
        with self._alone() as session:
            [(stored, last, _)] = session.rows(*self._kept_statement())
        if stored != epoch:
            raise LeaseLost(f"{self._shown} has another owner by now")
        return bool(last >= batch)

    def _make(self, session: Session, epoch: int) -> None:
        generation, shard = self._place
        latest = session.value(self._control.sql("SELECT max(generation) FROM @shards")) or 0
        if latest > generation:
            raise LeaseLost(f"the shards of generation {generation} were laid out anew")
        session.send(
            self._control.sql("INSERT INTO @shards VALUES (%s, %s, 0, %s, 0, 1)"),
            (generation, shard, epoch),
        )
        self._bring_up(session, 0)

    def _bring_up(self, session: Session, version: int) -> None:
        """Its tables to this release's, from those of that version."""
        if version > len(SHARD):
            raise StateError(
                f"{self._shown} was written by a later release (version {version} of its tables,"
                f" this one knows {len(SHARD)})"
            )
        for migration in SHARD[version:]:
            for statement in migration:
                session.send(self.names.sql(statement))
        session.send(
            self._control.sql(
                "UPDATE @shards SET version = %s WHERE generation = %s AND shard = %s"
            ),
            (len(SHARD), *self._place),
        )

    @contextlib.contextmanager
    def _alone(self) -> Iterator[Session]:
        with contextlib.ExitStack() as opened:
            yield self._lock_alone(opened)

    def _lock_alone(self, opened: contextlib.ExitStack) -> Session:
        lock = (_LOCK_ALONE, (f"{PATIENCE_S * 1000:.0f}ms", self._key))
        for _ in range(ATTEMPTS):
            try:
                session, _ = opened.enter_context(self.database.transaction(lock))
                return session
            except StateBusy:
                self.database.ask(_END_HOLDERS, (self._key, self._key))
        raise StateBusy(
            f"{self._shown} cannot be taken over: its last owner hangs in a transaction"
        )

    def _kept_statement(self) -> tuple[str, Parameters]:
        return self._control.sql(_KEPT), self._place
