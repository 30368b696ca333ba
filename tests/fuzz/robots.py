"""A robots.txt: any bytes, of as many as are read of one, and then URLs that are asked about."""

from hypothesis import strategies as st

from manyhands.shared.crawl.store.model import StoredRobots
from manyhands.worker.crawl.politeness.robots import (
    MAX_BYTES,
    RULES,
    RobotsRules,
    lifetime_s,
    rules_of,
)
from manyhands.worker.crawl.politeness.robots_cache import PARSED_IN_A_THREAD_BYTES
from manyhands.worker.pages.robots_tags import directives
from tests.fuzz.inputs import Pieces, damaged
from tests.fuzz.targets import Fault, InProcess, stopwatch

NOW = 1_800_000_000.0
URLS = (
    "http://example.com/",
    "http://example.com/private/page.html?a=b&c=d",
    f"http://example.com/{'a' * 1500}b",
    f"http://example.com/{'a/' * 700}?{'b=c&' * 100}",
)
MESSAGES = (
    b"User-agent: *\nDisallow: /private/\nAllow: /private/page.html$\nCrawl-delay: 2\n",
    b"User-agent: Manyhands/1.0\r\nUser-agent: other\r\nDisallow: /*.pdf$\r\nAllow: /\r\n",
    b"\xef\xbb\xbfUSER-AGENT:*\rdisallow:\rSitemap: http://example.com/s.xml\r",
    b"# a comment\nuser agent manyhands # us\nDisalow: /*a*b*c*d$\nRequest-rate: 1/5 0800-1700\n",
    b"User-agent: *\nVisit-time: 0600-0845\nHost: example.com\nDisallow: /%7Ejoe/%zz/\xc3\xa9\n",
)
WORDS = (
    *(
        b"User-agent: *\n",
        b"User-agent: Manyhands\n",
        b"Disallow: /",
        b"Allow: /",
        b"Crawl-delay: ",
    ),
    *(b"*", b"$", b"/*", b"*a", b"a*", b"/*/*/*/*/*/*/*/*x", b"%2F", b"#", b"/a", b"Sitemap: x\n"),
    *(
        b"Request-rate: 1/1\n",
        b"Visit-time: 1-2\n",
        b"noindex, ",
        b"manyhands: none, ",
        b"max-age=",
    ),
)


class Robots(InProcess):
    """The pieces are the file, and the values of Cache-Control and X-Robots-Tag."""

    inputs = st.tuples(
        damaged(MESSAGES, WORDS, max_bytes=MAX_BYTES),
        damaged([b"max-age=3600, public", b"no-cache", b'max-age="60"'], WORDS, max_bytes=5000),
        damaged([b"noindex, nofollow", b"manyhands: none", b"otherbot: all"], WORDS, max_bytes=500),
    ).map(list)

    def run(self, pieces: Pieces) -> float:
        """Whom it keeps waiting is the loop: large files are parsed in a thread beside it."""
        body, cache_control, tag = pieces
        began = stopwatch()
        kept_s = lifetime_s(cache_control.decode("ascii", "replace"))
        if not 60.0 <= kept_s <= 86_400.0:
            raise Fault(f"it is kept for {kept_s} s")
        directives(tag.decode("ascii", "replace"))
        rules = rules_of(StoredRobots(RULES, body, NOW, NOW + kept_s))
        took_s = stopwatch() - began
        in_loop_s = took_s if len(body) <= PARSED_IN_A_THREAD_BYTES else 0.0
        return max(in_loop_s, *(_asked_s(rules, url) for url in URLS))


def _asked_s(rules: RobotsRules, url: str) -> float:
    began = stopwatch()
    rules.allows(url)
    return stopwatch() - began
