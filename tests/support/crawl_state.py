"""The state of a crawl as an owner of its shards would leave it, without one."""

import time
from contextlib import closing
from pathlib import Path

from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.model import Settled
from manyhands.shared.crawl.store.new_urls import new_url
from manyhands.shared.crawl.store.opening import store_at
from manyhands.shared.urls import parse_url, shard_of_domain


def crawled(place: Path | str, shards: int, crawl: int, domain: str, *paths: str) -> None:
    """Admit the URLs of a domain to the state that is there, and settle each: those with `/404`
    fail, those that end with `/wait` wait, with `/fly` are being fetched, all others are done."""
    now = time.time()
    store = store_at((str(place),))
    with closing(store), closing(store.open_control()) as control:
        layout = control.layout(shards)
        shard = shard_of_domain(domain, shards)
        epoch = control.claim_lease(shard, "an-owner", 0.001)
        assert epoch is not None
        opened = store.open_shard(layout.generation, shard, epoch, now)
        urls = [new_url(parse_url(f"https://{domain}{path}"), 0) for path in paths]
        with closing(opened), opened.transaction():
            opened.admit(crawl, urls, now, are_seeds=True)
            [found] = opened.take_named([domain])
            claimed = opened.claim(found.origins[0].id, crawl, now, len(urls))
            outcomes = [_settled(url.id, url.url) for url in claimed]
            opened.settle([outcome for outcome in outcomes if outcome is not None], now)


def _settled(number: int, url: str) -> Settled | None:
    if url.endswith("/fly"):
        return None
    if url.endswith("/wait"):
        return Settled(number, UrlState.QUEUED)
    if "/404" in url:
        return Settled(number, UrlState.FAILED, 404, "http 404")
    return Settled(number, UrlState.DONE, 200, "", 1000)
