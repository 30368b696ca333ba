"""Where WARC files lie and where exports of them go: a local path, a URL, an object of S3. Pure."""

import re
from dataclasses import dataclass

from manyhands.shared.errors import ManyhandsError
from manyhands.shared.urls import Url, parse_url

MAX_PLACE_LENGTH = 4096

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.\-]{1,61}[a-z0-9]")
_CONTROL = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


class InvalidPlace(ManyhandsError, ValueError):
    """Text that names no place, and why."""


@dataclass(slots=True, frozen=True)
class FileAt:
    """A file or directory of the worker's machine; a relative path begins at WARC_FILES."""

    path: str

    def __str__(self) -> str:
        return self.path


@dataclass(slots=True, frozen=True)
class UrlAt:
    url: Url

    def __str__(self) -> str:
        """Without the query: it may hold a signature that opens the file to anybody."""
        return self.url.text.partition("?")[0]


@dataclass(slots=True, frozen=True)
class ObjectAt:
    """`key` is an object's, or what the keys of all of them begin with; without a leading slash."""

    bucket: str
    key: str

    def is_below(self, prefix: "ObjectAt") -> bool:
        """By whole parts of the key: a/bc is not below a/b."""
        return self.bucket == prefix.bucket and (
            prefix.key in ("", self.key) or self.key.startswith(f"{prefix.key}/")
        )

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"


Place = FileAt | UrlAt | ObjectAt


def parse_source(text: str) -> Place:
    """Raises InvalidPlace, or InvalidUrl."""
    place = _parsed(text)
    if isinstance(place, ObjectAt) and not place.key:
        raise InvalidPlace("s3:// needs a bucket and a key: s3://bucket/key")
    return place


def parse_destination(text: str) -> FileAt | ObjectAt:
    """Raises InvalidPlace, or InvalidUrl."""
    place = _parsed(text)
    if isinstance(place, UrlAt):
        raise InvalidPlace("nothing can be written to an HTTP URL: name a directory or s3://…")
    return place


def parse_prefix(text: str) -> ObjectAt:
    """`s3://bucket`, or `s3://bucket/and/a/prefix`. Raises InvalidPlace."""
    place = _parsed(text) if text.startswith("s3://") else None
    if not isinstance(place, ObjectAt):
        raise InvalidPlace("a bucket or a prefix is wanted: s3://bucket or s3://bucket/prefix")
    return place


def _parsed(text: str) -> Place:
    if not text or len(text) > MAX_PLACE_LENGTH or _CONTROL.search(text):
        raise InvalidPlace(f"a path or URL must have 1 to {MAX_PLACE_LENGTH} characters")
    found = _SCHEME.match(text)
    if found is None:
        return FileAt(text)
    match found[1].lower():
        case "http" | "https":
            return UrlAt(parse_url(text))
        case "s3":
            return _parsed_object(text[found.end() :])
        case scheme:
            raise InvalidPlace(f"{scheme}:// is not known: use a path, http(s):// or s3://")


def _parsed_object(rest: str) -> ObjectAt:
    bucket, _, key = rest.partition("/")
    if not _BUCKET.fullmatch(bucket):
        raise InvalidPlace("s3:// needs the name of a bucket: s3://bucket/…")
    key = key.strip("/")
    if key and any(part in ("", ".", "..") for part in key.split("/")):
        raise InvalidPlace(f"no part of a key on S3 may be empty, . or ..: {key!r}")
    return ObjectAt(bucket, key)
