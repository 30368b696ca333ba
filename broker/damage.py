"""What is damaged in the database: named when it is met, counted, and never deleted."""

import sqlite3
from pathlib import Path

from manyhands.broker.schema import SEQUENCE_BITS
from manyhands.shared.logs import get_logger

# Each is a line of the log; what is beyond is only counted.
MOST_NAMED = 100
MOST_COUNTED = 1_000_000
WHAT_TO_DO = (
    "stop the broker and run `manyhands broker recover DIRECTORY`, which copies all that can be"
    " read into a new directory, or restore a backup; the damaged file is left as it is"
)
# The primary code, in the low byte; a sector that cannot be read is damage as well.
_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_TOOBIG)
_READ_CODES = (sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ)


def is_damage(error: sqlite3.Error) -> bool:
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF in _CODES or code in _READ_CODES


class Damage:
    """State: the places that were named, the records that were met, by table, and how many jobs
    of a queue could not be found when it had been read to its end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.places: list[str] = []
        # What was answered and is not there any more; it was so before this process began.
        self.lost: str | None = None
        # Nothing new can be stored.
        self.is_in_the_way = False
        self._records: dict[str, set[int]] = {"jobs": set(), "sets": set()}
        self._missing: dict[int, int] = {}
        self._log = get_logger("store")

    @property
    def is_there(self) -> bool:
        return bool(self.places)

    @property
    def unreadable_jobs(self) -> int:
        """As many as are known of; more may come to light as queues are read."""
        met = sum(key >> SEQUENCE_BITS not in self._missing for key in self._records["jobs"])
        return met + len(self._records["sets"]) + sum(self._missing.values())

    def found(self, place: str, reason: str) -> None:
        """A place that cannot be used, as somebody would look for it."""
        if place in self.places:
            return
        if len(self.places) < MOST_NAMED:
            self.places.append(place)
            self._log.error(
                "the database is damaged",
                file=str(self.path),
                place=place,
                reason=reason,
                what_to_do=WHAT_TO_DO,
            )

    def found_record(self, table: str, key: int, reason: str) -> None:
        records = self._records[table]
        if key not in records and len(records) < MOST_COUNTED:
            records.add(key)
            self.found(f"table {table}, key {key}", reason)

    def found_missing(self, queue_id: int, name: str, jobs: int) -> None:
        """A queue was read to its end, and so many jobs that were counted are not among them."""
        self._missing[queue_id] = self._missing.get(queue_id, 0) + jobs
        self.found(f"table jobs, queue {name}", f"{jobs} of its jobs cannot be read")

    def bad_records(self, table: str) -> int:
        return len(self._records[table])

    def sentence(self) -> str:
        shown = "; ".join(self.places[:3])
        more = f"; and {len(self.places) - 3} more places" if len(self.places) > 3 else ""
        return (
            f"{self.path} is damaged ({shown}{more}): {self.unreadable_jobs} jobs that cannot be"
            f" read are known of, all others are handed out. To mend it, {WHAT_TO_DO}"
        )
