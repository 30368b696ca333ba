"""The files that crawls name, below CRAWL_FILES: seeds and exclusions."""

from pathlib import Path
from typing import TextIO

from manyhands.shared.contained import Outside, path_below
from manyhands.shared.crawl.exclusions import Exclusions
from manyhands.shared.crawl.store.model import Crawl
from manyhands.shared.crawl.store.protocol import ControlStore
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


def exclusions_of(control: ControlStore, crawl: Crawl) -> Exclusions | None:
    """None: the leader has not read them yet."""
    if crawl.spec.exclusions_file is None:
        return Exclusions.parse([])
    text = control.exclusions(crawl.id)
    return None if text is None else Exclusions.parse(text.splitlines())
