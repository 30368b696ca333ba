"""A page as a file of Markdown: its name, made from a URL that strangers chose, and its text. Pure.

The name ends in a digest of the record's id: so a repeated record has the same name, and no other
record has it, whatever the case of the letters. What stands before that is for people.
"""

import hashlib
import re
from typing import Any
from urllib.parse import unquote, urlsplit

import yaml

from manyhands.worker.records import PageRecord
from manyhands.worker.sinks.rows import valid_text

SUFFIX = ".md"
# A file system takes names of 255 bytes; all characters of ours are ASCII.
MOST_OF_PATH = 100
MOST_OF_HOST = 200
DIGEST_BYTES = 10
_INDEX = "index"
_NO_HOST = "no-host"
_NOT_KEPT = re.compile(r"[^a-z0-9.-]+")
# As they are, in front of the text; those that are None are left out.
FRONT = (
    *("url", "final_url", "title", "description", "language", "canonical", "fetched_at"),
    *("status", "content_type", "last_modified", "crawl", "depth", "is_truncated", "id"),
)


def file_name(page: PageRecord) -> tuple[str, str]:
    """Of the directory, one for each host, and of the file in it."""
    parts = urlsplit(page.url)
    host = _safe(parts.netloc.rpartition("@")[2])[:MOST_OF_HOST].rstrip(".-") or _NO_HOST
    path = unquote(f"{parts.path} {parts.query}", errors="replace")
    readable = _safe(path)[:MOST_OF_PATH].rstrip(".-") or _INDEX
    data = page.id.encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(data, digest_size=DIGEST_BYTES).hexdigest()
    return host, f"{readable}-{digest}{SUFFIX}"


def _safe(text: str) -> str:
    """Small letters, digits, dots and dashes; hidden files, and names that mean a directory, begin
    with a dot."""
    return _NOT_KEPT.sub("-", text.lower()).strip(".-")


def file_text(page: PageRecord) -> bytes:
    """Its fields, and its main content: as Markdown where that was chosen, or else as text."""
    values = {name: _value(getattr(page, name)) for name in FRONT}
    front = yaml.safe_dump(
        {name: value for name, value in values.items() if value is not None},
        allow_unicode=True,
        sort_keys=False,
        width=float("inf"),
    )
    body = page.markdown if page.markdown is not None else page.text or ""
    return f"---\n{front}---\n\n{valid_text(body).rstrip()}\n".encode()


def _value(value: Any) -> Any:
    return valid_text(value) if isinstance(value, str) else value
