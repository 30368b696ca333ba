"""Where a crawl writes its records: the ending of the output's name says in which format, and a
slash at its end that it is a folder of Markdown.

Sinks write WARC and Parquet as many files of a directory; at the end of the crawl these are joined
to the one that was asked for.
"""

import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from manyhands.cli.seeds import UsageError
from manyhands.shared.extras import import_extra

JSONL = (".jsonl", ".ndjson", ".jsonl.zst", ".ndjson.zst")
WARC = ".warc.gz"
PARQUET = ".parquet"
FOLDER = "/"
# Of the directories that the Parquet sink makes.
PAGES, EDGES = "pages", "edges"
_LOCAL_SINK = re.compile(r"(jsonl|warc|parquet|markdown):(?!/)(?=.)")


class Output:
    """`file` is what people get, a folder among them; `parts` is the directory of what is joined to
    it."""

    def __init__(self, name: str) -> None:
        self._is_folder = name.endswith(FOLDER)
        self.file = file = Path(name)
        self.parts = file.with_name(f"{file.name}.parts")

    def sinks(self, lines: Path) -> list[str]:
        """`lines` is where records go if the format has no place for them."""
        if self._is_folder:
            # It has neither links nor what was no page.
            return [f"markdown:{self.file}", f"jsonl:{lines}"]
        if self.file.name.endswith(WARC):
            # It has the pages as they were fetched.
            return [f"warc:{self.parts}", f"jsonl:{lines}"]
        if self.file.name.endswith(PARQUET):
            return [f"parquet:{self.parts}"]
        return [f"jsonl:{self.file}"]

    def join(self) -> list[Path]:
        """The files that there are then. May be repeated."""
        if not self.parts.is_dir():
            return [self.file]
        if self.file.name.endswith(WARC):
            made: list[Path | None] = [_joined_bytes(self.parts.glob(f"*{WARC}"), self.file)]
        else:
            edges = self.file.with_suffix(f".{EDGES}{PARQUET}")
            made = [
                _joined_tables(self.parts / PAGES, self.file),
                _joined_tables(self.parts / EDGES, edges),
            ]
        shutil.rmtree(self.parts)
        return [file for file in made if file is not None]


def check_format(name: str) -> None:
    """Raises UsageError, ConfigError."""
    if name.endswith(FOLDER):
        return
    output = Path(name)
    if not output.name.endswith((*JSONL, WARC, PARQUET)):
        raise UsageError(
            f"{output}: its ending says the format, and must be one of "
            f"{', '.join((*JSONL, PARQUET, WARC))}; {output}/ is a folder of .md"
        )
    if output.name.endswith(PARQUET):
        _parquet()
    if output.name.endswith(WARC):
        import_extra("fastwarc", WARC, "warc")


def absolute_sink(url: str) -> str:
    """As seen from here: a worker runs in another directory."""
    kind = _LOCAL_SINK.match(url)
    return url if kind is None else f"{kind.group()}{Path(url[kind.end() :]).absolute()}"


def _parquet() -> Any:
    return import_extra("pyarrow.parquet", PARQUET, "parquet")


def _draft(target: Path) -> Path:
    return target.with_name(f".{target.name}.draft")


def _joined_bytes(parts: Iterable[Path], target: Path) -> Path:
    """Each part is a file that may follow another."""
    draft = _draft(target)
    with draft.open("wb") as file:
        for part in sorted(parts):
            with part.open("rb") as source:
                shutil.copyfileobj(source, file, 1024 * 1024)
    draft.replace(target)
    return target


def _joined_tables(directory: Path, target: Path) -> Path | None:
    """None: there is no part."""
    parts: Sequence[Path] = sorted(directory.rglob(f"*{PARQUET}"))
    if not parts:
        return None
    parquet, draft = _parquet(), _draft(target)
    # Without what only the names of directories say.
    schema = parquet.read_schema(parts[0])
    with parquet.ParquetWriter(draft, schema, compression="zstd") as writer:
        for part in parts:
            source = parquet.ParquetFile(part)
            for group in range(source.num_row_groups):
                writer.write_table(source.read_row_group(group))
    draft.replace(target)
    return target
