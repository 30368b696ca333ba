"""The files that crawls name: seeds and exclusions, below CRAWL_FILES; and the copies of exclusions
that are kept with the state."""

from pathlib import Path
from typing import TextIO

from manyhands.shared.contained import Outside, path_below
from manyhands.shared.crawl.exclusions import Exclusions
from manyhands.shared.crawl.store.model import Crawl
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


def _kept_exclusions(directory: Path, crawl: Crawl) -> Path:
    return directory / f"exclusions-{crawl.id}.txt"


def keep_exclusions(settings: CrawlSettings, crawl: Crawl) -> None:
    """A copy of the file as it is now: the same for all processes, to the end of the crawl."""
    if crawl.spec.exclusions_file is None:
        return
    assert settings.state is not None
    kept = _kept_exclusions(settings.state, crawl)
    if kept.exists():
        return
    with opened(file_of(settings, crawl.spec.exclusions_file)) as file:
        text = file.read()
    try:
        Exclusions.parse(text.splitlines())
    except ValueError as error:
        raise ConfigError(f"the exclusions file cannot be used: {error}") from None
    draft = kept.with_suffix(".new")
    draft.write_text(text, encoding="utf-8")
    draft.replace(kept)


def exclusions_of(directory: Path, crawl: Crawl) -> Exclusions | None:
    """None: the leader has not copied them yet."""
    if crawl.spec.exclusions_file is None:
        return Exclusions.parse([])
    kept = _kept_exclusions(directory, crawl)
    if not kept.exists():
        return None
    return Exclusions.parse(kept.read_text(encoding="utf-8").splitlines())
