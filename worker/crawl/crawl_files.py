"""The files that crawls name: the exclusions as the store has them. Crawls of an earlier release
name files below CRAWL_FILES of the workers; now the API reads them (api/crawls/files.py)."""

from hashlib import blake2b
from pathlib import Path
from typing import TextIO
from weakref import WeakValueDictionary

from manyhands.shared.contained import Outside, path_below
from manyhands.shared.crawl.exclusions import Exclusions
from manyhands.shared.errors import ConfigError
from manyhands.shared.settings import CrawlSettings


def file_of(settings: CrawlSettings, name: str) -> Path:
    if settings.files is None:
        raise ConfigError(f"the crawl names the file {name}, but CRAWL_FILES is not set")
    try:
        return path_below(settings.files, name)
    except Outside as error:
        raise ConfigError(f"the file {name} of CRAWL_FILES {error}") from None


def opened(path: Path) -> TextIO:
    try:
        return path.open(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigError(f"the file {path.name} cannot be read: {error.strerror}") from None


def read_exclusions(settings: CrawlSettings, name: str) -> str:
    """As the file is now; the store keeps it, so that it stays the same to the end of the crawl."""
    with opened(file_of(settings, name)) as file:
        text = file.read()
    try:
        Exclusions.parse(text.splitlines())
    except ValueError as error:
        raise ConfigError(f"the exclusions file cannot be used: {error}") from None
    return text


class SharedExclusions:
    """A list may have millions of rules, and many crawls the same one. State: those in use, by what
    is in them."""

    def __init__(self) -> None:
        self.in_use: WeakValueDictionary[bytes, Exclusions] = WeakValueDictionary()

    def parsed(self, text: str) -> Exclusions:
        """May take seconds."""
        key = blake2b(text.encode()).digest()
        exclusions = self.in_use.get(key)
        if exclusions is None:
            exclusions = self.in_use[key] = Exclusions.parse(text.splitlines())
        return exclusions
