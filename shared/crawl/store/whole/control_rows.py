"""The crawls and what was ordered for them, copied from one control store to another. Members,
leases and the leader stay behind."""

from collections.abc import Sequence
from dataclasses import dataclass

from manyhands.shared.crawl.store.protocol import ControlStore
from manyhands.shared.crawl.store.whole.old_shard import parts
from manyhands.shared.crawl.store.whole.protocol import ControlTables
from manyhands.shared.crawl.store.whole.tables import Row, Tables

# What was asked of a crawl may be long.
ROWS_AT_ONCE = 20


@dataclass(frozen=True)
class _Table:
    """`columns` begin with those of the key; all keys are above `first`."""

    name: str
    columns: tuple[str, ...]
    first: Row = (0,)

    @property
    def query(self) -> str:
        key = ", ".join(self.columns[: len(self.first)])
        values = ", ".join("%s" for _ in self.first)
        return (
            f"SELECT {', '.join(self.columns)} FROM @{self.name} WHERE ({key}) > ({values})"
            f" ORDER BY {key} LIMIT %s"
        )

    def plain(self, rows: Sequence[Row]) -> list[Row]:
        """With the truth as such, which not all kinds of stores know."""
        flags = {
            place for place, name in enumerate(self.columns) if name.startswith(("is_", "has_"))
        }
        return [
            tuple(bool(value) if place in flags else value for place, value in enumerate(row))
            for row in rows
        ]


_CRAWLS = _Table(
    "crawls",
    (
        *("id", "spec", "state", "ends_as", "reason", "created_at", "started_at", "ended_at"),
        *("has_all_seeds", "seed_file_lines", "idempotency_key", "fingerprint"),
        "exclusions_key",
    ),
)
_OTHERS = (
    _Table("seeds", ("id", "shard", "crawl", "urls")),
    # Those of all crawls have the crawl 0.
    _Table("rules", ("crawl", "domain", "delay_s", "is_blocked", "is_paused"), (-1, "")),
    _Table("purges", ("id", "shard", "crawl", "domain")),
    _Table("grants", ("crawl", "member", "pages"), (0, "")),
    _Table("notes", ("id", "crawl", "at", "text")),
    _Table("texts", ("key", "part", "body"), (b"", 0)),
    # Without their readers, who have to ask the new store.
    _Table("seed_files", ("crawl", "name", "size", "digest", "refused", "is_read", "trouble")),
)


def copy_control(
    old: Tables, old_control: ControlStore, new: ControlTables, new_control: ControlStore
) -> None:
    """In place of all that the new one has. Seeds and purges still have the shards of the old
    layout, see `ControlStore.finish_reshard`."""
    for table in (_CRAWLS, *_OTHERS):
        _copy(table, old, new)
    for (crawl,) in old.ask("SELECT id FROM @crawls WHERE exclusions_key IS NULL"):
        # Kept by an earlier release.
        exclusions = old_control.files.exclusions(crawl)
        if exclusions is not None:
            new_control.files.keep_exclusions(crawl, exclusions)


def _copy(table: _Table, old: Tables, new: ControlTables) -> None:
    with new.transaction():
        new.run(f"DELETE FROM @{table.name}")
    for rows in parts(old, table.query, table.first, ROWS_AT_ONCE):
        with new.transaction():
            new.add_rows(table.name, table.columns, table.plain(rows))
