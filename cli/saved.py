"""The crawl of a directory: its request, so that the same command resumes it."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from manyhands.cli.seeds import UsageError

FILE = "crawl.json"


@dataclass(slots=True, frozen=True)
class SavedCrawl:
    """`key` makes the request idempotent: sent again, it finds the crawl that it started."""

    key: str
    request: Mapping[str, Any]
    # None: in the directory, named after the crawl.
    output: str | None
    # Where records go besides.
    sinks: list[str] = field(default_factory=list)

    @classmethod
    def new(
        cls, request: Mapping[str, Any], output: str | None, sinks: Sequence[str] = ()
    ) -> "SavedCrawl":
        name = None if output is None else absolute(output)
        return cls(secrets.token_hex(16), request, name, list(sinks))

    def is_for(self, request: Mapping[str, Any]) -> bool:
        return dict(self.request) == dict(request)

    def records(self, directory: Path, crawl: int) -> str:
        """As `Output` takes it."""
        return str(lines_of(directory, crawl)) if self.output is None else self.output


def absolute(output: str) -> str:
    """With the slash at its end, which says that it is a folder."""
    return f"{Path(output).absolute()}{'/' if output.endswith('/') else ''}"


def lines_of(directory: Path, crawl: int) -> Path:
    return directory / f"crawl-{crawl}.ndjson"


def read_kept(directory: Path) -> SavedCrawl | None:
    """Raises UsageError when it exists and cannot be read."""
    file = directory / FILE
    try:
        return SavedCrawl(**orjson.loads(file.read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from error


def keep(directory: Path, kept: SavedCrawl) -> None:
    draft = directory / f"{FILE}.new"
    draft.write_bytes(orjson.dumps(kept, option=orjson.OPT_INDENT_2))
    draft.replace(directory / FILE)
