"""Files that a crawl is given, copied into its directory: a resumed crawl has the same, whatever
became of the original. Their names follow from what is in them."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from manyhands.cli.seeds import UsageError
from manyhands.cli.submit import CHUNK_BYTES, kind_of, opened
from manyhands.shared.crawl.exclusions import Exclusions

FILES = "files"
_DIGEST_CHARACTERS = 16


def keep_seeds(directory: Path, name: str) -> str:
    """A file of URLs, which may be packed; `-` is stdin. Returns its name there. Raises
    UsageError."""
    return _keep(directory, name, "seeds")


def keep_exclusions(directory: Path, name: str) -> str:
    """Raises UsageError, also for a line that is no rule."""
    kept = _keep(directory, name, "exclude")
    try:
        Exclusions.parse((directory / FILES / kept).read_text().splitlines())
    except UnicodeError:
        raise UsageError(f"{name}: it is not UTF-8") from None
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None
    return kept


def _keep(directory: Path, name: str, prefix: str) -> str:
    files = directory / FILES
    files.mkdir(exist_ok=True)
    draft, digest = files / f".{prefix}.draft", hashlib.sha256()
    with opened(name) as source, draft.open("wb") as copy:
        for chunk in _unpacked(source):
            digest.update(chunk)
            copy.write(chunk)
        size = copy.tell()
    if not size:
        draft.unlink()
        raise UsageError(f"{name} is empty")
    kept = f"{prefix}-{digest.hexdigest()[:_DIGEST_CHARACTERS]}.txt"
    draft.replace(files / kept)
    return kept


def _unpacked(source: BinaryIO) -> Iterator[bytes]:
    chunk = source.read(CHUNK_BYTES)
    unpacking = kind_of(chunk).unpacker()
    while chunk:
        yield chunk if unpacking is None else unpacking.feed(chunk)
        chunk = source.read(CHUNK_BYTES)
    if unpacking is not None:
        unpacking.end()
