"""The operator's files that a crawl names. Rules are read when it is created, so that all workers
have the same ones from the store; seeds are read then (seed_files.py)."""

from pathlib import Path

from manyhands.api.problems import Problem, unprocessable
from manyhands.shared.contained import Outside, path_below
from manyhands.shared.crawl.exclusions import Exclusions
from manyhands.shared.crawl.scope import Scope
from manyhands.shared.crawl.spec import CrawlSpec
from manyhands.shared.crawl.store.texts import PackedText, pack

# Every process that crawls has all rules in memory; a million names are some 20 MB of text.
MAX_EXCLUSIONS_BYTES = 32 * 1024 * 1024


def read_files(directory: Path | None, spec: CrawlSpec) -> PackedText | None:
    """The exclusions, if it names any, after a look at all that it names. Raises Problem."""
    if spec.seed_file is not None:
        _existing(directory, spec.seed_file, "seed_file")
    text = _read_exclusions(directory, spec.exclusions_file)
    _scope(spec, text)
    return None if spec.exclusions_file is None else pack(text)


def read_scope(directory: Path | None, spec: CrawlSpec) -> Scope:
    """Raises Problem."""
    return _scope(spec, _read_exclusions(directory, spec.exclusions_file))


def _scope(spec: CrawlSpec, exclusions: str) -> Scope:
    try:
        rules = Exclusions.parse(exclusions.splitlines())
    except ValueError as error:
        raise _unusable(spec.exclusions_file, str(error)) from None
    try:
        return Scope(spec.scope, rules)
    except ValueError as error:
        raise unprocessable(f"scope.{error}", field="scope") from None


def _read_exclusions(directory: Path | None, name: str | None) -> str:
    if name is None:
        return ""
    path = _existing(directory, name, "exclusions_file")
    try:
        with path.open("rb") as file:
            # Once: it may change at any time.
            content = file.read(MAX_EXCLUSIONS_BYTES + 1)
        if len(content) > MAX_EXCLUSIONS_BYTES:
            raise _unusable(name, f"it has more than {MAX_EXCLUSIONS_BYTES:,} bytes")
        return content.decode()
    except OSError as error:
        raise _unusable(name, error.strerror or str(error)) from None
    except UnicodeError:
        raise _unusable(name, "it is not UTF-8") from None


def _unusable(name: str | None, why: str) -> Problem:
    return unprocessable(f"exclusions_file: {name}: {why}", field="exclusions_file")


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
