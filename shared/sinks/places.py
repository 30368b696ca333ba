"""URLs of sinks that write files: where the files go, and where they lie until they are complete.
Pure."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl

from manyhands.shared.errors import ConfigError

# Where the segments of S3 sinks lie until they are uploaded, unless the URL says otherwise.
DEFAULT_SPOOL = Path("manyhands-spool")
_S3 = "+s3"
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.\-]{1,61}[a-z0-9]")


@dataclass(slots=True, frozen=True)
class Bucket:
    """`prefix` is without slashes at its ends, and may be empty."""

    name: str
    prefix: str


@dataclass(slots=True, frozen=True)
class Place:
    """`path` is what a local sink's URL names, a file or a directory; for one on S3 it is the
    directory of its spool. `name` is the URL without its options."""

    name: str
    path: Path
    bucket: Bucket | None
    options: Mapping[str, str]


def parse_place(url: str, options: Mapping[str, tuple[str, ...]]) -> Place:
    """Read `kind:PATH` or `kind+s3://bucket/prefix`, each with `?option=value`. `options` are those
    that the kind of sink has, each with its values, the default first. Raises ConfigError."""
    name, _, query = url.partition("?")
    scheme, _, rest = name.partition(":")
    given = _parsed_query(scheme, query)
    if scheme.endswith(_S3):
        bucket = _parsed_bucket(scheme, rest)
        spool = Path(given.pop("spool", DEFAULT_SPOOL)) / _directory_name(scheme, bucket)
        name = f"{scheme}://{bucket.name}/{bucket.prefix}".rstrip("/")
        return Place(name, spool, bucket, _chosen(scheme, given, options))
    if not rest or (rest.startswith("//") and not rest.startswith("///")):
        raise ConfigError(f"SINKS: {scheme} needs a path behind the colon: {scheme}:PATH")
    path = Path(rest)
    return Place(f"{scheme}:{path}", path, None, _chosen(scheme, given, options))


def _parsed_query(scheme: str, query: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(query, strict_parsing=True)) if query else {}
    except ValueError:
        raise ConfigError(
            f"SINKS: the options of {scheme} cannot be read: use ?name=value"
        ) from None


def _parsed_bucket(scheme: str, rest: str) -> Bucket:
    name, _, prefix = rest.removeprefix("//").partition("/")
    prefix = prefix.strip("/")
    if not rest.startswith("//") or not _BUCKET.fullmatch(name):
        raise ConfigError(f"SINKS: {scheme} needs a bucket: {scheme}://bucket/prefix")
    if any(part in ("", ".", "..") for part in prefix.split("/") if prefix):
        raise ConfigError(f"SINKS: {scheme} cannot use the prefix {prefix!r}")
    return Bucket(name, prefix)


def _directory_name(scheme: str, bucket: Bucket) -> str:
    """One per place, so that several sinks can share a spool; its beginning is readable."""
    place = f"{scheme}://{bucket.name}/{bucket.prefix}"
    readable = re.sub(r"[^a-z0-9]+", "-", f"{scheme}-{bucket.name}-{bucket.prefix}".lower())
    return f"{readable[:60].strip('-')}-{hashlib.sha256(place.encode()).hexdigest()[:8]}"


def _chosen(
    scheme: str, given: Mapping[str, str], options: Mapping[str, tuple[str, ...]]
) -> dict[str, str]:
    for option, value in given.items():
        if option not in options:
            raise ConfigError(f"SINKS: {scheme} has no option {option!r}")
        if value not in options[option]:
            known = " or ".join(options[option])
            raise ConfigError(f"SINKS: {option} of {scheme} is {known}, not {value!r}")
    return {option: given.get(option, values[0]) for option, values in options.items()}
