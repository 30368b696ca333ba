"""What a robots.txt means, row by row of CRAWLING.md 5.1 (RFC 9309). The same over HTTP is in
tests/integration/test_robots.py."""

import asyncio
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.shared.crawl.store.model import StoredRobots
from manyhands.shared.errors import ConfigError
from manyhands.worker.crawl.politeness.delays import OriginState
from manyhands.worker.crawl.politeness.robots import (
    ALLOW_ALL,
    LONGEST_LINE,
    MAX_BYTES,
    MOST_WILDCARD_RULES,
    PRODUCT_TOKEN,
    RULES,
    UNREACHABLE,
    RobotsRules,
    check_user_agent,
    judge,
    lifetime_s,
    rules_of,
)
from manyhands.worker.crawl.politeness.robots_cache import RobotsCache, fetch_robots
from manyhands.worker.net.fetcher import (
    Answer,
    FetchError,
    ForbiddenAddress,
    PermanentFetchError,
    TemporaryFetchError,
)
from tests.unit.worker.crawl.politeness.answers import ScriptedFetcher, answer

NOW = 1_800_000_000.0
MINUTE = 60.0
HOUR = 3600.0
DAY = 86_400.0
SITE = "https://site.example"
UP = b"User-agent: *\nDisallow: /private/\n"


def rules(text: str | bytes) -> RobotsRules:
    body = text.encode() if isinstance(text, str) else text
    return rules_of(StoredRobots(RULES, body, NOW, NOW + DAY))


def allowed(text: str | bytes, path: str) -> bool:
    return rules(text).allows(SITE + path)


async def fetched(answers: dict[str, Answer | FetchError]) -> tuple[StoredRobots, list[str]]:
    fetcher = ScriptedFetcher({SITE + path: given for path, given in answers.items()})
    stored = await fetch_robots(
        fetcher, SITE, user_agent="Manyhands/1", check=lambda: None, now=lambda: NOW
    )
    return stored, fetcher.urls


class Site:
    """One origin whose robots.txt changes with time: the cache on a store of its own."""

    def __init__(self) -> None:
        self.now = NOW
        self.answer: Answer | FetchError = answer(200, UP)
        self.stored: StoredRobots | None = None
        self.state = OriginState()
        self.fetches = 0
        self.restart()

    def restart(self) -> None:
        self.cache = RobotsCache(10**6, 300.0, now=lambda: self.now, jitter=lambda: 0.0)
        self.state = OriginState.from_bytes(self.state.to_bytes())

    async def load(self, _origin: str) -> StoredRobots | None:
        return self.stored

    async def keep(self, _origin: str, robots: StoredRobots) -> None:
        self.stored = robots

    async def fetch(self, origin: str) -> StoredRobots:
        self.fetches += 1
        fetcher = ScriptedFetcher({f"{SITE}/robots.txt": self.answer})
        return await fetch_robots(
            fetcher, origin, user_agent="Manyhands/1", check=lambda: None, now=lambda: self.now
        )

    async def rules(self) -> RobotsRules:
        return await self.cache.get(SITE, self, self.state)


@pytest.fixture
def site() -> Site:
    return Site()


# Row "2xx": MUST follow parseable rules; at least 500 KiB are parsed.


@pytest.mark.parametrize("status", [200, 203, 206])
async def test_2xx_rules_are_followed(status):
    stored, urls = await fetched({"/robots.txt": answer(status, UP)})
    assert urls == [f"{SITE}/robots.txt"]
    assert (stored.kind, stored.body, stored.fetched_at) == (RULES, UP, NOW)
    assert not rules_of(stored).allows(f"{SITE}/private/a")
    assert rules_of(stored).allows(f"{SITE}/public")


async def test_2xx_without_a_body_allows_everything():
    stored, _ = await fetched({"/robots.txt": answer(204)})
    assert rules_of(stored).allows(f"{SITE}/private/a")


def test_2xx_of_500_kib_is_parsed_to_its_end():
    start = b"User-agent: *\n"
    end = b"Disallow: /last\n"
    body = start + b"#" * (MAX_BYTES - len(start) - len(end) - 1) + b"\n" + end
    assert len(body) == MAX_BYTES == 512_000
    stored = judge(answer(200, body), NOW)
    assert not rules_of(stored).allows(f"{SITE}/last")


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_2xx_beyond_500_kib_is_cut_at_the_last_whole_line(end):
    """Half of "Disallow: /private/" could be "Disallow: /"."""
    line = b"Disallow: /" + b"x" * 1000 + end
    body = b"User-agent: *" + end + line * (MAX_BYTES // len(line) + 5)
    stored = judge(answer(200, body), NOW)
    assert MAX_BYTES - len(line) <= len(stored.body) <= MAX_BYTES
    assert stored.body.endswith(line)
    assert rules_of(stored).allows(f"{SITE}/" + "x" * 999)
    assert not rules_of(stored).allows(f"{SITE}/" + "x" * 1000)


def test_2xx_that_the_fetcher_has_cut_is_cut_at_the_last_whole_line():
    stored = judge(answer(200, UP + b"Disallow: /", is_truncated=True), NOW)
    assert stored.body == UP


def test_2xx_that_is_one_endless_line_has_no_rules():
    stored = judge(answer(200, b"User-agent: * Disallow: / " * 50_000), NOW)
    assert stored.body == b""
    assert rules_of(stored).allows(f"{SITE}/")


def test_2xx_with_a_page_in_place_of_the_file_has_no_rules():
    page = (
        "<!DOCTYPE html>\n<html><title>Not found: /</title>\n<p>Disallow: /\n<a href='/'>x: y</a>"
    )
    assert rules(page).allows(f"{SITE}/")
    assert rules(page).parser is None


@pytest.mark.parametrize(
    "body",
    [
        b"\xef\xbb\xbf" + UP,
        UP.replace(b"\n", b"\r\n"),
        UP.replace(b"\n", b"\r"),
        UP.replace(b"\n", b"\0\n"),
        UP.decode().encode("utf-16"),
        b"\xfe\xff" + UP.decode().encode("utf-16-be"),
        # Without a byte order mark.
        UP.decode().encode("utf-16-le"),
        b"\xff\x80# \xe4\n" + UP + b"Disallow: /caf\xe9\n",
        UP + b"Disallow: /" + b"x" * LONGEST_LINE + b"\n",
        UP + b"\0" * 1000,
        UP + b"Crawl-delay: nan\nCrawl-delay: 1e999\nCrawl-delay: -1\n",
        UP + b"Disallow\nAllow\n:\n::\nUser-agent\nUser-agent:\n",
        UP + b"Sitemap: /private/map\nHost: x\nNoindex: /\nClean-param: a&b /\n",
    ],
)
def test_2xx_in_odd_shape_is_read_as_far_as_it_goes(body):
    assert not allowed(body, "/private/a")
    assert allowed(body, "/public")
    assert rules(body).crawl_delay_s is None


@given(st.binary(max_size=300))
def test_2xx_of_any_bytes_does_not_hurt(body):
    rules(b"User-agent: *\nDisallow: /" + body).allows(f"{SITE}/a?b=%C3%A4")


@given(st.lists(st.sampled_from([*"/*$?#%: \n\x0b\x85\u2028ab", "Allow:", "User-agent:", "%zz"])))
def test_2xx_of_any_rules_does_not_hurt(pieces):
    rules("User-agent: *\nDisallow: " + "".join(pieces)).allows(f"{SITE}//a/?%zz[]")


def test_2xx_with_more_wildcards_than_any_honest_site_has_forbids_everything():
    """Each would be looked for in every URL of the site."""
    many = "User-agent: *\n" + "Disallow: /*a\n" * MOST_WILDCARD_RULES
    assert allowed(many, "/b")
    found = rules(many + "Disallow: /*c\n")
    assert not found.allows(f"{SITE}/b")
    assert "wildcards" in found.reason
    assert not found.is_unreachable


@pytest.mark.parametrize(
    ("text", "path", "is_allowed"),
    [
        # RFC 9309, 2.2.2: the longest match counts, and Allow among equals.
        ("Disallow: /a\nAllow: /a/b", "/a/b/c", True),
        ("Allow: /a\nDisallow: /a/b", "/a/b/c", False),
        ("Disallow: /a\nAllow: /a", "/a", True),
        ("Disallow:", "/a", True),
        ("Disallow: /", "/robots.txt", True),
        # 2.2.3: * and $.
        ("Disallow: /*.gif$", "/a/b.gif", False),
        ("Disallow: /*.gif$", "/a/b.gif?x", True),
        ("Disallow: /a*c", "/abbbcd", False),
        # 2.2.2: percent-encoding, case.
        ("Disallow: /ä", "/%C3%A4", False),
        ("Disallow: /%c3%a4", "/%C3%A4/b", False),
        ("Disallow: /a%2Fb", "/a/b", True),
        ("Disallow: /A", "/a", True),
        ("DISALLOW: /a", "/a", False),
        # Queries belong to the path.
        ("Disallow: /*?", "/a?b", False),
        ("Disallow: /a # not this", "/a", False),
    ],
)
def test_2xx_rules_match_by_the_rfc(text, path, is_allowed):
    assert allowed(f"User-agent: *\n{text}", path) is is_allowed


# Row "3xx": at least five hops, also across hosts; the rules are the initial origin's.


def redirect(location: str | None, status: int = 302, **more: str) -> Answer:
    return answer(status, location=location, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_3xx_is_followed(status):
    stored, urls = await fetched(
        {"/robots.txt": redirect("/other.txt", status), "/other.txt": answer(200, UP)}
    )
    assert (stored.kind, stored.body) == (RULES, UP)
    assert urls == [f"{SITE}/robots.txt", f"{SITE}/other.txt"]


async def test_3xx_is_followed_five_times():
    hops: dict[str, Answer | FetchError] = {f"/{n}": redirect(f"/{n + 1}") for n in range(1, 5)}
    hops |= {"/robots.txt": redirect("/1"), "/5": answer(200, UP)}
    stored, urls = await fetched(hops)
    assert stored.body == UP
    assert len(urls) == 6


async def test_3xx_for_the_sixth_time_is_unavailable():
    hops: dict[str, Answer | FetchError] = {f"/{n}": redirect(f"/{n + 1}") for n in range(1, 6)}
    hops |= {"/robots.txt": redirect("/1"), "/6": answer(200, UP)}
    stored, urls = await fetched(hops)
    assert stored.kind == ALLOW_ALL
    assert urls[-1] == f"{SITE}/5"


async def test_3xx_in_a_circle_is_unavailable():
    stored, urls = await fetched({"/robots.txt": redirect("/robots.txt")})
    assert stored.kind == ALLOW_ALL
    assert len(urls) == 6


async def test_3xx_to_another_host_counts_for_the_initial_origin():
    fetcher = ScriptedFetcher(
        {
            f"{SITE}/robots.txt": redirect("http://www.elsewhere.example/robots.txt"),
            "http://www.elsewhere.example/robots.txt": answer(200, UP),
        }
    )
    stored = await fetch_robots(
        fetcher, SITE, user_agent="Manyhands/1", check=lambda: None, now=lambda: NOW
    )
    assert stored.body == UP
    assert not rules_of(stored).allows(f"{SITE}/private/")


@pytest.mark.parametrize(
    "location", [None, "ftp://x.example/robots.txt", "http://[", "http://a:b@c"]
)
async def test_3xx_that_cannot_be_followed_is_unavailable(location):
    stored, urls = await fetched({"/robots.txt": redirect(location)})
    assert stored.kind == ALLOW_ALL
    assert len(urls) == 1


async def test_3xx_to_an_error_means_what_the_error_means():
    stored, _ = await fetched({"/robots.txt": redirect("/x"), "/x": answer(503)})
    assert stored.kind == UNREACHABLE


async def test_3xx_to_a_forbidden_address_is_unavailable_for_a_minute():
    stored, _ = await fetched({"/robots.txt": redirect("/x"), "/x": ForbiddenAddress("10.0.0.1")})
    assert (stored.kind, stored.expires_at) == (ALLOW_ALL, NOW + MINUTE)


async def test_every_hop_is_checked_and_what_the_check_raises_ends_it():
    class LeaseGone(Exception):
        pass

    checks = 0

    def check() -> None:
        nonlocal checks
        checks += 1
        if checks == 2:
            raise LeaseGone

    fetcher = ScriptedFetcher({f"{SITE}/robots.txt": redirect("/x")})
    with pytest.raises(LeaseGone):
        await fetch_robots(fetcher, SITE, user_agent="Manyhands/1", check=check, now=lambda: NOW)
    assert fetcher.urls == [f"{SITE}/robots.txt"]


async def test_a_robots_txt_is_asked_for_by_the_same_name_as_the_pages():
    fetcher = ScriptedFetcher({})
    agent = "Manyhands/1 (+mailto:me@example.org)"
    await fetch_robots(fetcher, SITE, user_agent=agent, check=lambda: None, now=lambda: NOW)
    assert fetcher.user_agents == [agent]
    assert fetcher.max_bytes == [MAX_BYTES]


# Row "4xx": unavailable, everything is allowed; 429 is treated like 5xx.


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 410, 418, 451])
async def test_4xx_allows_everything(status):
    stored, _ = await fetched({"/robots.txt": answer(status, b"User-agent: *\nDisallow: /")})
    assert (stored.kind, stored.body) == (ALLOW_ALL, b"")
    assert rules_of(stored).allows(f"{SITE}/private/")
    assert rules_of(stored).crawl_delay_s is None


async def test_4xx_that_is_429_is_unreachable():
    stored, _ = await fetched({"/robots.txt": answer(429)})
    assert stored.kind == UNREACHABLE
    assert not rules_of(stored).allows(f"{SITE}/")


async def test_4xx_that_is_429_is_left_alone_for_as_long_as_it_asks(site):
    site.answer = answer(429, retry_after="7200")
    assert (await site.rules()).expires_at == NOW + 2 * HOUR


# Row "5xx / network / DNS / timeout": unreachable, complete disallow; the origin is deferred
# 5 min → 1 h → 6 h; a stale copy is used if there is one; after 30 days it is unavailable.

FAILURES = [
    answer(500),
    answer(502),
    answer(503),
    answer(504),
    answer(599),
    answer(199),
    answer(999),
    TemporaryFetchError("x", reason="time-out: first byte"),
    TemporaryFetchError("x", reason="dns: no such host"),
    TemporaryFetchError("x", reason="connection refused"),
    PermanentFetchError("x", reason="tls: certificate not accepted"),
]


@pytest.mark.parametrize("failure", FAILURES)
async def test_5xx_network_dns_tls_timeout_forbid_everything(failure):
    stored, _ = await fetched({"/robots.txt": failure})
    found = rules_of(stored)
    assert found.is_unreachable
    assert not found.allows(f"{SITE}/")
    assert not found.allows(f"{SITE}/public")
    expected = failure.reason if isinstance(failure, FetchError) else f"status {failure.status}"
    assert found.reason == expected


async def test_5xx_defers_the_origin_four_times_as_long_each_time_up_to_an_hour(site):
    site.answer = answer(500)
    for wait_s in (5 * MINUTE, 20 * MINUTE, HOUR, HOUR):
        until = (await site.rules()).expires_at
        assert until == site.now + wait_s
        site.now = until
    assert site.fetches == 4


async def test_5xx_is_not_asked_again_before_its_time_also_after_a_restart(site):
    site.answer = answer(500)
    await site.rules()
    for _ in range(5):
        site.now += MINUTE - 1
        site.restart()
        assert (await site.rules()).is_unreachable
    assert site.fetches == 1
    site.now += MINUTE
    site.answer = answer(200, UP)
    assert (await site.rules()).allows(f"{SITE}/public")


async def test_5xx_that_is_over_is_forgotten(site):
    site.answer = answer(500)
    for _ in range(3):
        site.now = (await site.rules()).expires_at
    site.answer = answer(404)
    site.now = (await site.rules()).expires_at
    site.answer = answer(500)
    assert (await site.rules()).expires_at == site.now + 5 * MINUTE


async def test_5xx_uses_a_stale_copy_if_there_is_one(site):
    await site.rules()
    site.now += DAY
    site.answer = answer(500)
    found = await site.rules()
    assert not found.is_unreachable
    assert not found.allows(f"{SITE}/private/")
    assert found.allows(f"{SITE}/public")
    assert found.expires_at == site.now + 5 * MINUTE


async def test_5xx_after_there_was_none_forbids_everything(site):
    """That there was no file yesterday is no copy."""
    site.answer = answer(404)
    await site.rules()
    site.now += DAY
    site.answer = answer(500)
    assert (await site.rules()).is_unreachable


async def test_5xx_for_29_days_uses_the_copy_and_after_30_days_it_is_unavailable(site):
    await site.rules()
    site.now += DAY
    site.answer = answer(500)
    began = site.now
    while site.now < began + 29 * DAY:
        found = await site.rules()
        assert not found.allows(f"{SITE}/private/")
        assert found.allows(f"{SITE}/public")
        site.now = found.expires_at
    while site.now < began + 30 * DAY:
        site.now = (await site.rules()).expires_at
    site.restart()
    assert (await site.rules()).allows(f"{SITE}/private/")
    assert site.fetches > 100


async def test_5xx_from_the_first_forbids_everything_for_30_days(site):
    site.answer = answer(500)
    while site.now < NOW + 30 * DAY:
        found = await site.rules()
        assert not found.allows(f"{SITE}/")
        site.now = found.expires_at
    assert (await site.rules()).allows(f"{SITE}/")


async def test_5xx_does_not_bring_back_a_copy_older_than_30_days(site):
    await site.rules()
    site.now += 31 * DAY
    site.answer = answer(500)
    assert (await site.rules()).is_unreachable


async def test_5xx_once_and_again_months_later_is_not_30_days_of_it(site):
    site.answer = answer(500)
    await site.rules()
    site.now += 90 * DAY
    assert (await site.rules()).is_unreachable
    assert site.state.robots_failures == 1


# Row "Cache": no longer than 24 h, shorter if Cache-Control says so.


async def test_cache_lasts_24_hours(site):
    await site.rules()
    site.now += DAY - 1
    await site.rules()
    site.restart()
    await site.rules()
    assert site.fetches == 1
    site.now += 1
    await site.rules()
    assert site.fetches == 2


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("", DAY),
        ("public", DAY),
        ("max-age=3600", HOUR),
        ("public, Max-Age=3600, must-revalidate", HOUR),
        ('max-age="3600"', HOUR),
        ("max-age=31536000", DAY),
        ("max-age=99999999999999999999999999", DAY),
        ("max-age=0", MINUTE),
        ("max-age=5", MINUTE),
        ("no-cache", MINUTE),
        ("no-store, max-age=3600", MINUTE),
        ("NO-CACHE", MINUTE),
        ("max-age=-1", DAY),
        ("max-age=x", DAY),
        ("max-age", DAY),
        ("max-age=³", DAY),
        (",,=,", DAY),
    ],
)
def test_cache_honours_a_shorter_cache_control_down_to_a_minute(header, seconds):
    assert lifetime_s(header) == seconds


@pytest.mark.parametrize("status", [200, 404])
async def test_cache_control_counts_for_every_answer_that_settles_it(status):
    stored, _ = await fetched({"/robots.txt": answer(status, cache_control="max-age=600")})
    assert stored.expires_at == NOW + 600


async def test_cache_control_of_the_last_answer_counts():
    stored, _ = await fetched(
        {
            "/robots.txt": redirect("/x", cache_control="max-age=600"),
            "/x": answer(200, cache_control="max-age=700"),
        }
    )
    assert stored.expires_at == NOW + 700


# Row "Scope": per scheme, host and port.


async def test_scope_is_the_origin_with_its_port():
    fetcher = ScriptedFetcher({})
    await fetch_robots(
        fetcher,
        "http://site.example:8080",
        user_agent="Manyhands/1",
        check=lambda: None,
        now=lambda: NOW,
    )
    assert fetcher.urls == ["http://site.example:8080/robots.txt"]


async def test_scope_rules_of_one_origin_say_nothing_of_another():
    site = Site()
    cache = site.cache
    ours, theirs = Site(), Site()
    theirs.answer = answer(404)
    assert not (await cache.get(SITE, ours, ours.state)).allows(f"{SITE}/private/")
    other = "http://site.example"
    assert (await cache.get(other, theirs, theirs.state)).allows(f"{other}/private/")


# Row "UA match": by product token, [A-Za-z_-]+ only.


def test_ua_match_our_token_is_one():
    assert re.fullmatch("[A-Za-z_-]+", PRODUCT_TOKEN)


@pytest.mark.parametrize("agent", ["Manyhands/0.1", "manyhands", "Mozilla/5.0 (Manyhands/1; +x)"])
def test_ua_match_the_user_agent_must_have_our_token(agent):
    check_user_agent(agent)


@pytest.mark.parametrize("agent", ["", "Example/1.0", "Many hands"])
def test_ua_match_another_user_agent_is_refused(agent):
    with pytest.raises(ConfigError, match="Manyhands"):
        check_user_agent(agent)


@pytest.mark.parametrize(
    ("agent", "is_us"),
    [
        ("Manyhands", True),
        ("MANYHANDS", True),
        ("Manyhands/1.0", True),
        ("manyhands/0.1 (+mailto:me@example.org)", True),
        ("Manyhands*", True),
        ("Many", False),
        ("m", False),
        ("hands", False),
        ("Manyhands-Images", False),
        ("NotManyhands", False),
        ("Googlebot", False),
        ("", False),
        ("/", False),
    ],
)
def test_ua_match_is_by_the_whole_token_whatever_its_case(agent, is_us):
    text = f"User-agent: {agent}\nDisallow: /a\n\nUser-agent: *\nDisallow: /b\n"
    assert allowed(text, "/a") is not is_us
    assert allowed(text, "/b") is is_us


def test_ua_match_groups_that_name_us_are_one_and_those_for_everybody_do_not_count():
    text = (
        "User-agent: *\nDisallow: /c\n\n"
        "User-agent: other\nUser-agent: manyhands\nDisallow: /a\n\n"
        "User-agent: third\nDisallow: /d\n\n"
        "User-agent: Manyhands/2\nDisallow: /b\n"
    )
    assert [allowed(text, path) for path in ("/a", "/b", "/c", "/d")] == [False, False, True, True]


def test_ua_match_a_group_without_rules_allows_everything():
    text = "User-agent: *\nDisallow: /\n\nUser-agent: Manyhands\n"
    assert allowed(text, "/a")
    assert allowed(text.replace("Manyhands", "Manyhands\nDisallow:"), "/a")


def test_ua_match_lines_that_nobody_knows_do_not_end_a_group():
    text = "User-agent: Manyhands\n\n# x\nSitemap: /s\nFoo: bar\nUser-agent: other\nDisallow: /a\n"
    assert not allowed(text, "/a")


def test_ua_match_rules_before_any_group_count_for_nobody():
    assert allowed("Disallow: /\nUser-agent: *\nDisallow: /b", "/a")


# Row "Crawl-delay": read here, capped in test_politeness.py.


@pytest.mark.parametrize(
    ("text", "delay_s"),
    [
        ("User-agent: *\nCrawl-delay: 10", 10),
        ("User-agent: *\nCrawl-delay: 0.5\nDisallow: /a", 0.5),
        ("User-agent: *\nCrawl-delay: 10\nUser-agent: Manyhands\nCrawl-delay: 2", 2),
        ("User-agent: *\nCrawl-delay: 10\nUser-agent: Manyhands\nDisallow: /a", None),
        ("User-agent: *\nCrawl-delay: 10\nUser-agent: other\nCrawl-delay: 99", 10),
        ("User-agent: other\nCrawl-delay: 10", None),
        ("User-agent: *\nCrawl-delay: soon", None),
        ("User-agent: *\nCrawl-delay: -1", None),
        ("User-agent: *\nCrawl-delay: inf", None),
    ],
)
def test_crawl_delay_is_that_of_our_group_or_of_everybodys(text, delay_s):
    assert rules(text).crawl_delay_s == delay_s


# Row "First contact": single flight per origin.


async def test_first_contact_of_many_is_one_fetch():
    site = Site()
    found = await asyncio.gather(*(site.rules() for _ in range(50)))
    assert site.fetches == 1
    assert all(each is found[0] for each in found)


def test_sitemaps_are_of_no_group_and_come_once():
    text = (
        "Sitemap: https://site.example/1.xml\nUser-agent: other\nDisallow: /\n"
        "sitemap:https://site.example/2.xml # the second\nUser-agent: *\nDisallow: /private/\n"
        "Site-map : /3.xml\nSitemap:\nSITEMAP: https://site.example/1.xml\n"
    )
    found = rules(text)
    expected = ("https://site.example/1.xml", "https://site.example/2.xml", "/3.xml")
    assert found.sitemaps == expected
    assert not found.allows(f"{SITE}/private/a")
    assert rules("Sitemap: https://site.example/1.xml\n").sitemaps == expected[:1]
    assert rules_of(StoredRobots(ALLOW_ALL, b"", NOW, NOW + DAY)).sitemaps == ()
