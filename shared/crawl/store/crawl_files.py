"""What crawls have of the files that they name: the content of exclusions, and how far the seeds
were read. In statements that all kinds of stores understand (`whole.tables`).

The API has these files; workers have what is kept here. A seed file may be read by one process at a
time, its reader, which says so again and again. Whoever comes after one that died goes on where
that one stopped, if its file begins with what was read.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.crawl.store.control_words import seed_rows
from manyhands.shared.crawl.store.errors import StateError
from manyhands.shared.crawl.store.model import NewCrawl, SeedFile
from manyhands.shared.crawl.store.texts import PackedText, pack, unpack
from manyhands.shared.crawl.store.whole.tables import Row

Result = TypeVar("Result")
Ask = Callable[[str, Sequence[object]], list[Row]]
# Files that one process is told of at a time.
MOST_FILES = 1000
# Of crawls that take seeds; whoever is paused before it began takes them, too.
_TAKES_SEEDS = f"crawls.state IN ('{CrawlState.STARTING}', '{CrawlState.PAUSED}')"
_SEED_FILE = (
    "SELECT files.crawl, files.name, crawls.seed_file_lines, files.refused, files.size,"
    " files.digest, files.is_read, files.trouble, files.reader, files.until"
    " FROM @seed_files AS files JOIN @crawls AS crawls ON crawls.id = files.crawl WHERE "
)
_EXCLUSIONS = (
    "SELECT crawls.exclusions_key, texts.body FROM @crawls AS crawls"
    " LEFT JOIN @texts AS texts ON texts.key = crawls.exclusions_key"
    " WHERE crawls.id = %s ORDER BY texts.part"
)


class Changes(Protocol):
    """An open transaction."""

    def ask(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]: ...

    def run(self, sql: str, parameters: Sequence[object] = ()) -> None: ...

    def run_many(self, sql: str, rows: Iterable[Row]) -> None: ...


class Change(Protocol):
    """Do it in one transaction; again, if the store was lost and may not have done it."""

    def __call__(self, work: Callable[[Changes], Result]) -> Result: ...


class CrawlFiles:
    """A part of every `ControlStore`. State: none but the store's.

    `kept_before` has the exclusions that were kept by an earlier release. Times are those of
    `clock.now`."""

    def __init__(self, ask: Ask, change: Change, kept_before: Callable[[int], str | None]) -> None:
        self._ask = ask
        self._change = change
        self._kept_before = kept_before

    # Exclusions

    def exclusions(self, crawl: int) -> str | None:
        """The lines of its exclusions file: the same for all processes, to the end of the crawl.
        None: they were not kept yet. Raises StateError."""
        rows = self._ask(_EXCLUSIONS, (crawl,))
        if not rows:
            return None
        key = rows[0][0]
        if key is None:
            return self._kept_before(crawl)
        try:
            return unpack(key, [body or b"" for _, body in rows])
        except ValueError as error:
            raise StateError(f"the exclusions of crawl {crawl} are damaged: {error}") from None

    def has_exclusions(self, crawl: int) -> bool:
        """Whether they were kept, without reading them."""
        rows = self._ask("SELECT exclusions_key FROM @crawls WHERE id = %s", (crawl,))
        if not rows:
            return False
        return rows[0][0] is not None or self._kept_before(crawl) is not None

    def keep_exclusions(self, crawl: int, text: str) -> None:
        """Of a crawl of an earlier release; others come with them."""
        packed = pack(text)
        self._change(lambda changes: _keep_exclusions(changes, crawl, packed))

    # Seed files

    def seed_file(self, crawl: int) -> SeedFile | None:
        """None: it has none, or one that workers read: before it was for the API to do so."""
        rows = self._ask(f"{_SEED_FILE} files.crawl = %s", (crawl,))
        return SeedFile.of_row(rows[0]) if rows else None

    def unread(self, reader: str, now: float) -> list[SeedFile]:
        """Those that this reader may read: nobody else does. The oldest first."""
        rows = self._ask(
            f"{_SEED_FILE} NOT files.is_read AND {_TAKES_SEEDS}"
            " AND (files.reader = %s OR files.until <= %s) ORDER BY files.crawl LIMIT %s",
            (reader, now, MOST_FILES),
        )
        return [SeedFile.of_row(row) for row in rows]

    def take(self, crawl: int, reader: str, now: float, until: float) -> SeedFile | None:
        """Become or stay its reader. None: another one is, or it needs none any more."""

        def take(changes: Changes) -> SeedFile | None:
            changes.run(
                "UPDATE @seed_files SET reader = %s, until = %s"
                " WHERE crawl = %s AND (reader = %s OR until <= %s)",
                (reader, until, crawl, reader, now),
            )
            rows = changes.ask(
                f"{_SEED_FILE} files.crawl = %s AND files.reader = %s AND NOT files.is_read"
                f" AND {_TAKES_SEEDS}",
                (crawl, reader),
            )
            return SeedFile.of_row(rows[0]) if rows else None

        return self._change(take)

    def add(self, read: SeedFile, by_shard: Mapping[int, Sequence[str]]) -> bool:
        """Keep seeds of a file, with how far it was read by then. False, and nothing changes: it
        has another reader, or its crawl takes no more seeds."""

        def add(changes: Changes) -> bool:
            if not changes.ask(
                f"{_SEED_FILE} files.crawl = %s AND files.reader = %s AND {_TAKES_SEEDS}",
                (read.crawl, read.reader),
            ):
                return False
            changes.run(
                "UPDATE @seed_files SET refused = %s, size = %s, digest = %s, is_read = %s,"
                " trouble = '', until = %s WHERE crawl = %s",
                (read.refused, read.size, read.digest, read.is_read, read.until, read.crawl),
            )
            changes.run(
                "UPDATE @crawls SET seed_file_lines = %s, has_all_seeds = %s WHERE id = %s",
                (read.lines, read.is_read, read.crawl),
            )
            add_seeds(changes, read.crawl, by_shard)
            return True

        return self._change(add)

    def leave(self, reader: str) -> None:
        """What it was reading may be read by others at once."""
        self._change(
            lambda changes: changes.run(
                "UPDATE @seed_files SET reader = '', until = 0 WHERE reader = %s", (reader,)
            )
        )

    def cannot_read(self, crawl: int, reader: str, why: str) -> None:
        """Say so, for people, and leave it to others."""
        self._change(
            lambda changes: changes.run(
                "UPDATE @seed_files SET trouble = %s, reader = '', until = 0"
                " WHERE crawl = %s AND reader = %s",
                (why, crawl, reader),
            )
        )


def keep_files_of(changes: Changes, crawl: int, new: NewCrawl) -> None:
    """Of a crawl that is being created."""
    if new.exclusions is not None:
        _keep_exclusions(changes, crawl, new.exclusions)
    if new.spec.seed_file is not None:
        changes.run(
            "INSERT INTO @seed_files (crawl, name, digest) VALUES (%s, %s, %s)",
            (crawl, new.spec.seed_file, b""),
        )


def add_seeds(changes: Changes, crawl: int, by_shard: Mapping[int, Sequence[str]]) -> None:
    changes.run_many(
        "INSERT INTO @seeds (shard, crawl, urls) VALUES (%s, %s, %s)", seed_rows(crawl, by_shard)
    )


def _keep_exclusions(changes: Changes, crawl: int, text: PackedText) -> None:
    # All of its parts or none: another release may pack it into other ones.
    if not changes.ask("SELECT 1 FROM @texts WHERE key = %s LIMIT 1", (text.key,)):
        changes.run_many(
            "INSERT INTO @texts (key, part, body) VALUES (%s, %s, %s)",
            ((text.key, number, body) for number, body in enumerate(text.parts)),
        )
    changes.run("UPDATE @crawls SET exclusions_key = %s WHERE id = %s", (text.key, crawl))
