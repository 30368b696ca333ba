"""WARC files for `bench-warc`: pages as the web has them, compressed record by record. Pure but for
the file that is written."""

import base64
import gzip
import hashlib
import random
import uuid
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

SMALLEST_PAGE, LARGEST_PAGE = 20_000, 140_000
# Made anew; the rest of a longer file repeats them.
DISTINCT_BYTES = 32 * 1024 * 1024
HOSTS = 200
WORDS = 4000
GZIP_LEVEL = 6
DATE = "2026-11-01T00:00:00Z"

# What most of a page is: the same elements again and again. With some text between them a file
# shrinks to between a quarter and a fifth, as those of Common Crawl do.
CARD = """\
<article class="c-card c-card--listing u-mb-4 u-flex" data-component="card" itemscope \
itemtype="https://schema.org/Article">
  <a class="c-card__media u-block u-rounded" href="/articles/{number}/{slug}.html" tabindex="-1">\
<img class="c-card__image lazyload" src="/media/cache/thumbnail/{digest}.jpg" \
sizes="(min-width: 48em) 33vw, 100vw" width="640" height="360" alt="{alt}" loading="lazy"></a>
  <div class="c-card__body u-p-3"><h2 class="c-card__title u-h4" itemprop="headline">\
<a class="c-card__link" href="/articles/{number}/{slug}.html">{title}</a></h2>\
<p class="c-card__excerpt u-text-muted">{text}</p>
    <ul class="c-tags u-list-inline" role="list"><li class="c-tags__item">\
<a class="c-tags__link" href="/tag/{tag}" rel="tag">{tag}</a></li></ul>
    <time class="c-card__date" datetime="2026-{month:02}-{day:02}T08:00:00+00:00" \
itemprop="datePublished">{day}.{month}.2026</time></div></article>
"""


@dataclass(frozen=True, slots=True)
class Made:
    """A file, and what is in it: responses, and the bytes of their bodies."""

    path: str
    size: int
    pages: int
    payload_bytes: int


def make_archive(path: Path, size: int, seed: int = 1) -> Made:
    """At least `size` bytes; the same for the same seed."""
    rounds = pages = payload_bytes = 0
    distinct = bytearray()
    text = _Text(seed)
    while len(distinct) < min(size, DISTINCT_BYTES):
        url = f"https://www.site-{pages % HOSTS}.example/{pages}/{text.words(2, '-')}"
        body = text.page(url)
        distinct += _records(url, body, text.random)
        pages += 1
        payload_bytes += len(body)
    with path.open("wb") as file:
        while file.tell() < size:
            file.write(distinct)
            rounds += 1
        return Made(str(path), file.tell(), pages * rounds, payload_bytes * rounds)


class _Text:
    """State: the source of chance, and the words, of which a few are used most of the time."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        letters = "etaoinshrdlucmfwypvbgkjqxz"
        self._words = [
            "".join(self.random.choices(letters, k=self.random.randint(2, 10)))
            for _ in range(WORDS)
        ]
        self._up_to = list(accumulate(1 / (rank + 3) for rank in range(WORDS)))

    def words(self, count: int, between: str = " ") -> str:
        return between.join(self.random.choices(self._words, cum_weights=self._up_to, k=count))

    def page(self, url: str) -> bytes:
        wanted = self.random.randint(SMALLEST_PAGE, LARGEST_PAGE)
        parts = [
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{self.words(5)}'
            f'</title><link rel="canonical" href="{url}"></head><body class="site"><main>'
        ]
        length = len(parts[0])
        while length < wanted:
            parts.append(self._card())
            length += len(parts[-1])
        return "".join([*parts, "</main></body></html>"]).encode()

    def _card(self) -> str:
        chance = self.random
        return CARD.format(
            number=chance.randrange(10**6),
            slug=self.words(5, "-"),
            digest=f"{chance.getrandbits(128):032x}",
            alt=self.words(5),
            title=self.words(8),
            text=self.words(50),
            tag=self.words(1),
            month=chance.randint(1, 12),
            day=chance.randint(1, 28),
        )


def _records(url: str, body: bytes, chance: random.Random) -> bytes:
    """A request and its response, each compressed by itself."""
    host, _, path = url.removeprefix("https://").partition("/")
    request = f"GET /{path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: bench\r\n\r\n".encode()
    head = (
        "HTTP/1.1 200 OK\r\nDate: Sun, 01 Nov 2026 00:00:00 GMT\r\nServer: nginx\r\n"
        "Content-Type: text/html; charset=utf-8\r\nConnection: keep-alive\r\n"
        "Cache-Control: max-age=600\r\nVary: Accept-Encoding\r\nX-Frame-Options: SAMEORIGIN\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode()
    return _record("request", url, request, b"", chance) + _record(
        "response", url, head, body, chance
    )


def _record(kind: str, url: str, head: bytes, body: bytes, chance: random.Random) -> bytes:
    block = head + body
    name = uuid.UUID(int=chance.getrandbits(128), version=4)
    header = (
        f"WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <urn:uuid:{name}>\r\n"
        f"WARC-Date: {DATE}\r\nWARC-Target-URI: {url}\r\nWARC-IP-Address: 192.0.2.1\r\n"
        f"WARC-Payload-Digest: {_digest(body)}\r\nWARC-Block-Digest: {_digest(block)}\r\n"
        f"Content-Type: application/http; msgtype={kind}\r\nContent-Length: {len(block)}\r\n\r\n"
    )
    return gzip.compress(header.encode() + block + b"\r\n\r\n", GZIP_LEVEL, mtime=0)


def _digest(data: bytes) -> str:
    digest = hashlib.sha1(data, usedforsecurity=False).digest()
    return f"sha1:{base64.b32encode(digest).decode()}"
