"""What a crawl has not seen of its pages, in words. Pure."""

from collections.abc import Mapping

from manyhands.shared.crawl.cuts import CUT_COUNTERS, Cut

_WHY = {
    Cut.FETCH_LIMIT: "cut at FETCH_MAX_BYTES: what follows was not read",
    Cut.PARSE_LIMIT: "cut at FETCH_TRUNCATE_BYTES: their further links were not seen",
    Cut.DAMAGE: "cut where they could not be decompressed",
    Cut.NESTING: "cut where too many elements or attributes were inside each other",
    Cut.LINK_LIMIT: "cut at the most links that a page may have",
    Cut.XML: "cut where a feed or sitemap was no well-formed XML",
    Cut.ENTITIES: "cut where a feed or sitemap declared entities",
    Cut.SITEMAP_URLS: "cut at the most URLs that a sitemap may have",
    Cut.SITEMAP_BYTES: "cut at the most bytes that a sitemap may have",
    Cut.NESTED_INDEX: "left out: lists of sitemaps that another list names",
}


def cut_texts(counters: Mapping[str, int]) -> list[str]:
    """A line for each limit that cut any page."""
    texts = []
    for cut, why in _WHY.items():
        count = counters.get(CUT_COUNTERS[cut], 0)
        if count:
            texts.append(f"{count:,} {'page was' if count == 1 else 'pages were'} {why}")
    return texts
