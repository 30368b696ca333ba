"""How the sitemaps of a host come into the frontier."""

from pathlib import Path
from typing import Any

import pytest

from manyhands.shared.crawl.spec import DiscoverySpec
from manyhands.shared.crawl.store.model import StoredRobots
from manyhands.worker.crawl.fetching.sitemaps import MOST_SITEMAPS, sitemaps_of
from manyhands.worker.crawl.politeness.robots import ALLOW_ALL, RULES, RobotsRules, rules_of
from tests.unit.worker.crawl.fetching.bench import CRAWL, PAGE, SITE, bench_of
from tests.unit.worker.crawl.politeness.answers import answer

HTML = answer(200, b"<p>hello", content_type="text/html")
NAMING = f"Sitemap: {SITE}/a.xml\nSitemap: /b.xml\nSitemap: ftp://site.example/c.xml\n"
OTHERS = "Sitemap: http://elsewhere.example/d.xml\n"


def rules(text: str) -> RobotsRules:
    return rules_of(StoredRobots(RULES, text.encode(), 0.0, 2e9))


NONE = rules_of(StoredRobots(ALLOW_ALL, b"", 0.0, 2e9))


@pytest.mark.parametrize(
    ("discovery", "of", "expected"),
    [
        ({}, rules(NAMING), ([f"{SITE}/a.xml", f"{SITE}/b.xml"], 1)),
        ({"sitemaps": "always"}, rules(NAMING), ([f"{SITE}/a.xml", f"{SITE}/b.xml"], 1)),
        ({"sitemaps": "none"}, rules(NAMING), ([], 0)),
        ({}, NONE, ([], 0)),
        ({"sitemaps": "always"}, NONE, ([f"{SITE}/sitemap.xml"], 0)),
        ({"sitemaps": "none"}, NONE, ([], 0)),
    ],
)
def test_the_switch_says_which_are_asked_for(discovery: dict[str, Any], of, expected):
    assert sitemaps_of(SITE, of, DiscoverySpec(**discovery)) == expected


def test_a_robots_txt_that_names_too_many_is_counted():
    text = "".join(f"Sitemap: {SITE}/{number}.xml\n" for number in range(MOST_SITEMAPS + 7))
    urls, refused = sitemaps_of(SITE, rules(text), DiscoverySpec())
    assert (len(urls), refused) == (MOST_SITEMAPS, 7)


async def test_they_are_in_the_frontier_before_the_first_page_ends(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {PAGE: HTML}) as bench:
        request = await bench.take()
        page = bench.page(request)._replace(rules=rules(NAMING + OTHERS))
        bench.outside.answers.clear()
        bench.page_turns.begin(request, page)
        await bench.outside.asked.wait()

        found = await bench.urls()
        assert found.keys() == {PAGE, f"{SITE}/a.xml", f"{SITE}/b.xml"}
        assert found[f"{SITE}/a.xml"].depth == 1
        counters = await bench.store.change(0, lambda store: store.counters(CRAWL))
        assert (counters["sitemap_refused"], counters["out_of_scope"]) == (1, 1)
        bench.outside.answers.set()


async def test_they_are_looked_at_once(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {PAGE: HTML}) as bench:
        request = await bench.take()
        page = bench.page(request)._replace(rules=rules(NAMING))
        for _ in range(2):
            await bench.page_turns.sitemaps.announce(request.shard, page)

        counters = await bench.store.change(0, lambda store: store.counters(CRAWL))
        assert (counters["links"], counters["duplicates"]) == (2, 0)
        bench.page_turns.begin(request, page)
