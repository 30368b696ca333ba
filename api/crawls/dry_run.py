"""What a crawl would do with a URL, and why. Pure."""

from collections.abc import Collection, Iterable, Iterator

from manyhands.api.crawls.model import JudgedUrl
from manyhands.shared.crawl.canonical import fingerprint, page_key
from manyhands.shared.crawl.messages import crawl_queue
from manyhands.shared.crawl.scope import Scope
from manyhands.shared.errors import InvalidUrl
from manyhands.shared.urls import Url, parse_url, registrable_domain, shard_of_domain

NOT_LOOKED_AT = "robots.txt, limits, and URLs that running crawls have seen"


class DryRun:
    """State: the pages so far. `tag` is that of the store; `blocked` are domains that the operator
    has blocked for all crawls."""

    def __init__(
        self, scope: Scope, seeds: Iterable[Url], tag: str, shards: int, blocked: Collection[str]
    ) -> None:
        self._scope = scope
        self._tag = tag
        self._shards = shards
        self._blocked = blocked
        self._seeds: set[bytes] = set()
        self._seed_names: set[str] = set()
        for seed in seeds:
            self._seeds.add(page_key(seed))
            self._seed_names |= {seed.host, registrable_domain(seed.host)}
        self._first: dict[bytes, int] = {}

    def judge(self, texts: Iterable[str]) -> Iterator[JudgedUrl]:
        for index, text in enumerate(texts):
            try:
                url = parse_url(text)
            except InvalidUrl as error:
                yield _no_url(text, str(error))
            else:
                yield self._judged(index, text, url)

    def _judged(self, index: int, text: str, url: Url) -> JudgedUrl:
        key = page_key(url)
        domain = registrable_domain(url.host)
        shard = shard_of_domain(domain, self._shards)
        first = self._first.setdefault(key, index)
        reason = self._why_out(url, key, domain)
        return JudgedUrl(
            url=text,
            is_in=not reason,
            reason=reason,
            canonical=url.text,
            fingerprint=fingerprint(url),
            key=key.hex(),
            domain=domain,
            shard=shard,
            queue=crawl_queue(self._tag, shard, self._shards),
            duplicate_of=None if first == index else first,
        )

    def _why_out(self, url: Url, key: bytes, domain: str) -> str:
        verdict = self._scope.judge(url, 0 if key in self._seeds else 1)
        if not verdict.is_in:
            return verdict.reason
        if verdict.scope_name and verdict.scope_name not in self._seed_names:
            return f"scope: no seed is on {verdict.scope_name}"
        if domain in self._blocked:
            return "blocked by the operator"
        return ""


def _no_url(text: str, why: str) -> JudgedUrl:
    return JudgedUrl(
        url=text,
        is_in=False,
        reason=f"no URL: {why}",
        canonical=None,
        fingerprint=None,
        key=None,
        domain=None,
        shard=None,
        queue=None,
        duplicate_of=None,
    )
