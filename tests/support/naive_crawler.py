"""A crawler as simple as can be, one page after the other: what it fetches of a synthetic web is
compared with what the web says of itself. It does not wait, and of ours it knows only how URLs are
written and which of them are the same page.
"""

import re
from collections import deque
from html.parser import HTMLParser
from urllib.parse import urlsplit

import httpx
from protego import Protego

from loadtest.web.synthetic_web import host_address
from manyhands.shared.crawl.canonical import origin_of, page_key
from manyhands.shared.errors import InvalidUrl
from manyhands.shared.urls import Url, parse_url, resolve_reference

AGENT = "Manyhands/1.0 (naive@example.org)"
MOST_BYTES = 100_000
MOST_TRIES = 3
MOST_REDIRECTS = 5
MOST_DEPTH = 8
_IN_WEB = re.compile(r"w(\d+)\.site\d+\.test")
_CHARSET = re.compile(rb"""charset=["']?([\w-]+)""")


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.base = ""
        self.hrefs: list[str] = []
        self.is_closed = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "base":
            self.base = given.get("href", "")
        elif tag == "meta" and given.get("name") == "robots":
            self.is_closed = "nofollow" in given.get("content", "")
        elif tag == "a" and "nofollow" not in given.get("rel", "").split():
            self.hrefs.append(given.get("href", ""))


class NaiveCrawler:
    """State: the URLs to come with depth and redirects, the keys of those that have been among
    them, the rules of each origin, and what each URL ended as."""

    def __init__(self, seeds: list[str]) -> None:
        self._to_come: deque[tuple[Url, int, int]] = deque()
        self._seen: set[bytes] = set()
        self._rules: dict[str, Protego] = {}
        self.ends: dict[str, str] = {}
        self._client = httpx.Client(trust_env=False, timeout=10)
        for seed in seeds:
            self._admit(parse_url(seed), 0, 0)

    def crawl(self) -> None:
        with self._client:
            while self._to_come:
                url, depth, redirects = self._to_come.popleft()
                self.ends[url.text] = self._visit(url, depth, redirects)

    def _admit(self, url: Url, depth: int, redirects: int) -> None:
        key = page_key(url)
        if key not in self._seen and _IN_WEB.fullmatch(url.host) and depth <= MOST_DEPTH:
            self._seen.add(key)
            self._to_come.append((url, depth, redirects))

    def _visit(self, url: Url, depth: int, redirects: int) -> str:
        origin = origin_of(url.text)
        if origin not in self._rules:
            self._rules[origin] = self._robots(origin + "/robots.txt")
        if not self._rules[origin].can_fetch(url.text, "Manyhands"):
            return "disallowed"
        answer = self._get_at_last(url.text)
        if answer is None:
            return "failed"
        response, body = answer
        if response.is_redirect:
            if redirects == MOST_REDIRECTS:
                return "failed"
            self._admit(resolve_reference(url, response.headers["location"]), depth, redirects + 1)
            return "redirected"
        if response.status_code != httpx.codes.OK:
            return "failed"
        if not response.headers.get("content-type", "text/html").startswith("text/html"):
            return "skipped"
        if "nofollow" not in response.headers.get("x-robots-tag", ""):
            self._follow(url, body, response.headers.get("content-type", ""), depth)
        return "done"

    def _get_at_last(self, url: str) -> tuple[httpx.Response, bytes] | None:
        """A host that sends us away is asked until it does not; an error costs a try."""
        tries = 0
        while tries < MOST_TRIES:
            try:
                response, body = self._get(url)
            except httpx.HTTPError:
                tries += 1
                continue
            if response.status_code in (429, 503):
                continue
            if response.status_code < httpx.codes.INTERNAL_SERVER_ERROR:
                return response, body
            tries += 1
        return None

    def _get(self, url: str) -> tuple[httpx.Response, bytes]:
        """One request, to the host's address."""
        parts = urlsplit(url)
        number = _IN_WEB.fullmatch(parts.hostname or "")
        assert number is not None
        there = parts._replace(netloc=f"{host_address(int(number[1]))}:{parts.port}").geturl()
        headers = {"host": parts.netloc, "user-agent": AGENT}
        body = b""
        with self._client.stream("GET", there, headers=headers) as response:
            for piece in response.iter_bytes(MOST_BYTES):
                body += piece
                if len(body) >= MOST_BYTES:
                    break
        return response, body

    def _robots(self, url: str) -> Protego:
        response, body = self._get(url)
        while response.is_redirect:
            response, body = self._get(response.headers["location"])
        return Protego.parse(body.decode() if response.is_success else "")

    def _follow(self, url: Url, body: bytes, content_type: str, depth: int) -> None:
        links = _Links()
        links.feed(_decoded(body, content_type))
        if links.is_closed:
            return
        base = resolve_reference(url, links.base) if links.base else url
        for href in links.hrefs:
            try:
                self._admit(resolve_reference(base, href), depth + 1, 0)
            except InvalidUrl:
                continue


def _decoded(body: bytes, content_type: str) -> str:
    if body.startswith(b"\xff\xfe"):
        return body.decode("utf-16", "replace")
    named = _CHARSET.search(content_type.encode()) or _CHARSET.search(body[:1024])
    return body.decode(named[1].decode() if named else "utf-8-sig", "replace")
