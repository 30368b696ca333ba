"""The operator's files that a crawl names. Workers read them; this checks that they exist and, if
they hold rules, that these are valid."""

from pathlib import Path

from manyhands.api.problems import Problem, unprocessable
from manyhands.shared.contained import Outside, path_below
from manyhands.shared.crawl.exclusions import Exclusions
from manyhands.shared.crawl.scope import Scope
from manyhands.shared.crawl.spec import CrawlSpec


def check_files(directory: Path | None, spec: CrawlSpec) -> None:
    """Raises Problem."""
    if spec.seed_file is not None:
        _existing(directory, spec.seed_file, "seed_file")
    read_scope(directory, spec)


def read_scope(directory: Path | None, spec: CrawlSpec) -> Scope:
    """Raises Problem."""
    try:
        return Scope(spec.scope, _read_exclusions(directory, spec.exclusions_file))
    except ValueError as error:
        raise unprocessable(f"scope.{error}", field="scope") from None


def _read_exclusions(directory: Path | None, name: str | None) -> Exclusions:
    if name is None:
        return Exclusions()
    path = _existing(directory, name, "exclusions_file")
    try:
        with path.open(encoding="utf-8") as lines:
            return Exclusions.parse(lines)
    except OSError as error:
        raise unprocessable(
            f"exclusions_file: {name}: {error.strerror}", field="exclusions_file"
        ) from None
    except ValueError as error:
        why = "it is not UTF-8" if isinstance(error, UnicodeError) else str(error)
        raise unprocessable(f"exclusions_file: {name}: {why}", field="exclusions_file") from None


def _existing(directory: Path | None, name: str, field: str) -> Path:
    if directory is None:
        raise unprocessable(f"{field}: CRAWL_FILES is not set", field=field)
    try:
        path = path_below(directory, name)
    except Outside as error:
        raise unprocessable(
            f"{field}: the file {name!r} of CRAWL_FILES {error}", field=field
        ) from None
    if not path.is_file():
        raise _missing(name, field)
    return path


def _missing(name: str, field: str) -> Problem:
    return unprocessable(f"{field}: there is no file {name!r} in CRAWL_FILES", field=field)
