"""A state with something of everything in it, and what it holds, whatever its shards."""

import contextlib
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import orjson

from manyhands.shared.crawl.spec import CrawlSpec
from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.model import NewCrawl, NewUrl, Settled, StoredRobots
from manyhands.shared.crawl.store.new_urls import new_url
from manyhands.shared.crawl.store.opening import store_at
from manyhands.shared.crawl.store.protocol import ShardStore
from manyhands.shared.urls import parse_url, shard_of_domain, shard_of_url

NOW = 1_700_000_000.0
CRAWLS = (1, 2)
DOMAINS = [f"site{number}.com" for number in range(40)]
OUTCOMES = [
    Settled(0, UrlState.FAILED, 500, "server error", attempts=3),
    Settled(0, UrlState.PARSING, 200, size=100),
    Settled(0, UrlState.QUEUED, 503, "come back later", not_before=NOW + 60),
    Settled(0, UrlState.REDIRECTED, 301),
    Settled(0, UrlState.DONE, 200, size=10),
]


def urls_of(domain: str, pages: int) -> list[NewUrl]:
    return [
        new_url(parse_url(f"{site}/{page}"), page % 3)
        for site in (f"http://www.{domain}", f"https://{domain}:8443")
        for page in range(pages)
    ]


def fill(place: Path | str, shards: int, pages: int = 5) -> None:
    """Half of it is claimed when its owners go."""
    store_of_all = store_at((str(place),))
    with (
        contextlib.closing(store_of_all),
        contextlib.closing(store_of_all.open_control()) as control,
    ):
        generation = control.layout(shards).generation
        for _ in CRAWLS:
            crawl, _ = control.create_crawl(NewCrawl(CrawlSpec(contact="me@example.org")), NOW)
        seeds: defaultdict[int, list[str]] = defaultdict(list)
        for domain in DOMAINS:
            seeds[shard_of_domain(domain, shards)].append(f"http://www.{domain}/late")
        control.add_seeds(crawl.id, seeds)
        for shard in range(shards):
            epoch = control.claim_lease(shard, "first owner", 0.0)
            assert epoch is not None
            domains = [one for one in DOMAINS if shard_of_domain(one, shards) == shard]
            opened = store_of_all.open_shard(generation, shard, epoch, NOW)
            with contextlib.closing(opened) as store:
                _fill_shard(store, domains, pages, (shard + 1) % shards, shards)


def _fill_shard(store: ShardStore, domains: list[str], pages: int, other: int, shards: int) -> None:
    with store.transaction():
        for crawl in CRAWLS:
            for domain in domains:
                store.admit(crawl, urls_of(domain, pages), NOW, are_seeds=crawl == 1)
            store.count(crawl, {"links": 11, "trapped": 1})
        taken = store.take_domains(NOW, 1000)
    with store.transaction():
        for place, held in enumerate(taken):
            store.keep_domain(held.id, NOW + 5000 + len(held.name), 2.0)
            for origin in held.origins:
                store.keep_origin(origin.id, NOW + place, origin.origin.encode())
                store.keep_robots(origin.origin, StoredRobots("rules", b"robots", NOW, NOW + 86400))
                claimed = store.claim(origin.id, 1 + place % 2, NOW, 4)
                settled = [
                    OUTCOMES[(place + at) % len(OUTCOMES)]._replace(id=one.id)
                    for at, one in enumerate(claimed[:3])
                ]
                store.settle(settled, NOW + 1)
    links = [[f"http://www.{domain}/linked", 3, 1] for domain in DOMAINS]
    links = [link for link in links if shard_of_url(str(link[0]), shards) == other]
    with store.transaction():
        store.send(1, [(other, orjson.dumps([link])) for link in links])


def content(place: Path | str) -> dict[str, Any]:
    """Everything that must be the same after a change of the shards. Opens as the next owner."""
    found: defaultdict[str, Any] = defaultdict(dict)
    counters: Counter[tuple[int, str]] = Counter()
    links = []
    store_of_all = store_at((str(place),))
    with (
        contextlib.closing(store_of_all),
        contextlib.closing(store_of_all.open_control()) as control,
    ):
        layout = control.layout(control.layout(0).shards)
        for shard in range(layout.shards):
            epoch = control.claim_lease(shard, "reader", 0.0)
            assert epoch is not None
            opened = store_of_all.open_shard(layout.generation, shard, epoch, NOW)
            with contextlib.closing(opened) as store:
                _read_shard(store, shard, layout.shards, found)
                for crawl in CRAWLS:
                    counters.update(
                        {(crawl, name): value for name, value in store.counters(crawl).items()}
                    )
                for batch in store.outgoing({}, 10_000):
                    links += [(batch.target, link) for link in orjson.loads(batch.payload)]
            seeds = [url for batch in control.seeds(shard, 1000) for url in batch.urls]
            assert all(shard_of_url(url, layout.shards) == shard for url in seeds)
            found["seeds"] |= dict.fromkeys(seeds)
    assert all(shard_of_url(link[0], layout.shards) == target for target, link in links)
    found["links"] = sorted(link for _, link in links)
    # Grows with every takeover, and with every batch that is divided.
    found["counters"] = {
        place: value
        for place, value in counters.items()
        if value and place[1] not in ("changes", "outgoing")
    }
    return dict(found)


def _read_shard(store: ShardStore, shard: int, shards: int, found: dict[str, Any]) -> None:
    for crawl in CRAWLS:
        for state in UrlState:
            for row in store.urls(crawl, state, 0, 100_000):
                assert shard_of_url(row.url, shards) == shard
                assert (crawl, row.url) not in found["urls"]
                found["urls"][crawl, row.url] = (
                    *(row.state, row.depth, row.status, row.reason, row.attempts),
                    row.updated_at,
                )
        for group in store.errors(crawl):
            before = found["errors"].get((crawl, group.reason), 0)
            found["errors"][crawl, group.reason] = before + group.count
    # Undone at its end: in which order the URLs of an origin would be fetched.
    with contextlib.suppress(InterruptedError), store.transaction():
        for domain in store.waiting_domains(1000):
            found["domains"][domain.name] = domain.next_at
            for origin in domain.origins:
                found["origins"][origin.origin] = (origin.queued, origin.ready_at, origin.notes)
                found["robots"][origin.origin] = store.robots([origin.origin]).get(origin.origin)
                claimed = store.claim(origin.id, 1, NOW + 100, 1000)
                found["order"][origin.origin] = [one.url for one in claimed]
        raise InterruptedError
