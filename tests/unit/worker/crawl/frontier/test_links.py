"""Which links are wanted, and whose they are."""

import pytest

from manyhands.shared.crawl.canonical import page_key
from manyhands.shared.crawl.exclusions import Exclusions
from manyhands.shared.crawl.scope import Scope
from manyhands.shared.crawl.spec import CrawlSpec, ScopeSpec
from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.urls import parse_url, registrable_domain, shard_of_domain
from manyhands.worker.crawl.frontier.links import LinkSorter, RecentUrls, SortedLinks
from manyhands.worker.crawl.frontier.live_crawls import LiveCrawl

SHARDS = 8


def live(
    *names: str, excluded: tuple[str, ...] = (), knows_seeds: bool = True, **scope: object
) -> LiveCrawl:
    spec = CrawlSpec(contact="me@example.org", scope=ScopeSpec.model_validate(scope))
    return LiveCrawl(
        1,
        spec,
        CrawlState.RUNNING,
        Scope(spec.scope, Exclusions.parse(excluded)),
        "Manyhands",
        seed_names=frozenset(names) if knows_seeds else None,
    )


def sorted_of(crawl: LiveCrawl, *links: tuple[str, int, int] | str) -> SortedLinks:
    sorting, together = LinkSorter().sorting(crawl, SHARDS, range(SHARDS)), SortedLinks()
    for link in links:
        url, depth, redirects = (link, 1, 0) if isinstance(link, str) else link
        result = sorting.sort([url], depth, redirects)
        together.counts.update(result.counts)
        for shard, new in result.by_shard.items():
            together.by_shard.setdefault(shard, []).extend(new)
    return together


def sort(sorter: LinkSorter, crawl: LiveCrawl, *links: str) -> SortedLinks:
    return sorter.sorting(crawl, SHARDS, range(SHARDS)).sort(links, 1, 0)


def urls(result: SortedLinks) -> list[str]:
    return sorted(url.url for urls in result.by_shard.values() for url in urls)


def test_a_link_goes_to_the_shard_of_its_domain_with_all_that_the_store_wants() -> None:
    result = sorted_of(live("news.bbc.co.uk"), ("http://news.bbc.co.uk:8080/a?b=1", 3, 2))

    ((shard, (new,)),) = result.by_shard.items()
    assert shard == shard_of_domain("bbc.co.uk", SHARDS)
    assert (new.origin, new.domain) == ("http://news.bbc.co.uk:8080", "bbc.co.uk")
    assert (new.depth, new.redirects, new.scope_name) == (3, 2, "")
    assert new.key == page_key(parse_url("http://news.bbc.co.uk:8080/a?b=1"))


@pytest.mark.parametrize(
    ("within", "names", "url", "is_in"),
    [
        ("hosts", ("a.example.org",), "http://a.example.org/x", True),
        ("hosts", ("a.example.org",), "http://b.example.org/x", False),
        ("hosts", ("example.org",), "http://www.example.org/x", False),
        ("hosts", ("[::1]", "127.0.0.1"), "http://127.0.0.1:81/x", True),
        ("domains", ("example.org",), "http://deep.below.example.org/x", True),
        ("domains", ("example.org",), "http://notexample.org/x", False),
        ("domains", ("example.org",), "http://org/x", False),
        ("anywhere", (), "http://never.seen.example/x", True),
        ("listed", (), "http://never.seen.example/x", False),
    ],
)
def test_scope_by_the_names_of_the_seeds(
    within: str, names: tuple[str, ...], url: str, is_in: bool
) -> None:
    result = sorted_of(live(*names, within=within), url)

    assert urls(result) == ([url] if is_in else [])
    assert result.counts["out_of_scope"] == (not is_in)


def test_lists_of_hosts_count_beside_the_seeds() -> None:
    crawl = live("a.example", hosts=["b.example"], domains=["c.example"])

    result = sorted_of(
        crawl, "http://a.example/", "http://b.example/", "http://x.c.example/", "http://d.example/"
    )

    assert urls(result) == ["http://a.example/", "http://b.example/", "http://x.c.example/"]


def test_a_crawl_with_too_many_seeds_asks_the_store() -> None:
    result = sorted_of(live(knows_seeds=False), "http://a.example/")

    ((_, (new,)),) = result.by_shard.items()
    assert new.scope_name == "a.example"


def test_what_a_seed_redirects_to_is_not_asked_for_its_host() -> None:
    result = sorted_of(live("example.org"), ("https://www.example.org/", 0, 1))

    assert urls(result) == ["https://www.example.org/"]


def test_an_excluded_host_is_out_also_for_a_seed() -> None:
    result = sorted_of(live(excluded=("bad.example",)), ("http://bad.example/", 0, 0))

    assert urls(result) == []


def test_why_links_are_left_out_is_counted() -> None:
    crawl = live("a.example", excluded=("*/private/*",), max_depth=3)

    result = sorted_of(
        crawl,
        "http://a.example/fine",
        "http://a.example/private/x",
        "http://a.example/x/x/x/x/x",
        ("http://a.example/deep", 4, 0),
        "http://other.example/",
        "not a URL",
        "http://user:secret@a.example/",
    )

    assert urls(result) == ["http://a.example/fine"]
    counts = {name: number for name, number in result.counts.items() if number}
    assert counts == {"links": 7, "excluded": 1, "trapped": 1, "too_deep": 1, "out_of_scope": 3}


def test_what_was_admitted_a_moment_ago_is_a_duplicate() -> None:
    sorter, crawl = LinkSorter(), live("a.example")
    first = sort(sorter, crawl, "http://a.example/x")
    for new in first.by_shard.values():
        sorter.admitted(crawl.id, new)

    again = sort(sorter, crawl, "http://a.example/x")

    assert again.by_shard == {}
    assert again.counts["duplicates"] == 1


def test_what_was_found_a_moment_ago_together_with_others_is_a_duplicate() -> None:
    sorting = LinkSorter().sorting(live("a.example"), SHARDS, range(SHARDS))
    first = sorting.sort(["http://a.example/x", "http://a.example/x"], 1, 0)
    second = sorting.sort(["http://a.example/x", "http://a.example/y"], 2, 0)

    assert (urls(first), urls(second)) == (["http://a.example/x"], ["http://a.example/y"])
    assert (first.counts["duplicates"], second.counts["duplicates"]) == (1, 1)


def test_what_is_sent_to_others_is_found_again_with_each_page() -> None:
    sorting = LinkSorter().sorting(live("a.example"), SHARDS, ())
    for _ in range(2):
        assert urls(sorting.sort(["http://a.example/x"], 1, 0)) == ["http://a.example/x"]


def test_a_new_seed_opens_its_host() -> None:
    sorter, crawl = LinkSorter(), live("a.example")
    link = "http://b.example/x"
    assert urls(sort(sorter, crawl, link)) == []

    crawl.seed_names = frozenset({"a.example", "b.example"})

    assert urls(sort(sorter, crawl, link)) == [link]


def test_a_link_that_is_not_canonical_is_known_by_its_canonical_form() -> None:
    result = sorted_of(live("a.example"), "http://a.example/x/../y")

    ((shard, (new,)),) = result.by_shard.items()
    assert (new.url, new.origin) == ("http://a.example/y", "http://a.example")
    assert shard == shard_of_domain(registrable_domain("a.example"), SHARDS)


def test_recent_urls_are_bounded() -> None:
    recent = RecentUrls(most=10)
    sorter, crawl = LinkSorter(), live("a.example")
    for number in range(100):
        for new in sort(sorter, crawl, f"http://a.example/{number}").by_shard.values():
            recent.add(crawl.id, new)

    young, old = recent.of(crawl.id)
    kept = [n for n in range(100) if f"http://a.example/{n}" in young | old]
    assert recent.of(crawl.id + 1) == (set(), set())
    assert kept == list(range(100 - len(kept), 100))
    assert 5 <= len(kept) <= 10
