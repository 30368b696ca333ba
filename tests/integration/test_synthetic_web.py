"""The synthetic web: it serves what it says, the same every time, and notes who comes."""

import socket
import ssl
from collections import Counter
from collections.abc import Iterator

import aiodns
import pycares
import pytest

from devservers.processes import wait_until
from loadtest.bench.crawl.peers import USER_AGENT, colly, scrapy
from loadtest.web.oracle import coverage
from loadtest.web.politeness import judge
from loadtest.web.synthetic_web import SyntheticWeb, WebSpec, host_address, host_name
from tests.support.naive_crawler import AGENT, NaiveCrawler

PLAIN = WebSpec(hosts=20, pages=200, size_bytes=8000)
# Large enough to have every oddity.
ODDITIES = 29
MIXED = WebSpec(hosts=20, pages=400, profile="web", size_bytes=3000, size_spread=0.5, seed=3)


@pytest.fixture(scope="module")
def plain() -> Iterator[SyntheticWeb]:
    with SyntheticWeb(PLAIN) as web:
        yield web


@pytest.fixture(scope="module")
def mixed() -> Iterator[SyntheticWeb]:
    with SyntheticWeb(MIXED) as web:
        yield web


def number_of(url: str) -> int:
    """Of the host."""
    return int(url[len("http://w") :].partition(".")[0])


def get(web: SyntheticWeb, path: str, host: int = 0, name: str = "") -> bytes:
    """The whole answer to one plain request, head and body."""
    port = web.seeds[0].rpartition(":")[2].strip("/")
    request = (
        f"GET {path} HTTP/1.1\r\nHost: {name or host_name(host)}:{port}\r\n"
        f"User-Agent: {AGENT}\r\nConnection: close\r\n\r\n"
    )
    with socket.create_connection((host_address(host), int(port)), timeout=20) as connection:
        connection.sendall(request.encode())
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize("kind", ["plain", "mixed"])
def test_what_a_naive_crawl_fetches_is_what_the_web_says_that_a_perfect_one_does(kind, request):
    web: SyntheticWeb = request.getfixturevalue(kind)
    web.reset()
    crawler = NaiveCrawler(web.seeds)
    crawler.crawl()
    perfect = web.perfect_crawl()
    visits = web.ledger()
    result = coverage(perfect, visits)
    assert result.is_exact, str(result)
    # On a busy machine the server may note the end of an answer when its client is at the next.
    verdict = judge(visits, delay_s=0.0, tolerance_s=0.2)
    rude = {name for name, one in verdict.all_violations.items() if one.count}
    # What it does not do is to wait.
    assert rude <= {"while blocked", "short of the Crawl-delay"}, str(verdict)
    # The others were found by another spelling of their URLs.
    for url in perfect.keys() & crawler.ends:
        expected = perfect[url]
        if expected.verdict == "must" and expected.ends != "any":
            assert crawler.ends[url] == expected.ends, url


def test_the_mixed_web_has_every_kind_of_thing_and_of_answer(mixed):
    kinds = Counter(expected.kind for expected in mixed.perfect_crawl().values())
    assert kinds["page"] == MIXED.pages
    assert len(kinds) == 1 + ODDITIES
    # All but the first requests of a busy host are answered.
    answers = {
        get(mixed, "/" + url.split("/", 3)[3], number_of(url))[:12].decode()
        for url, expected in mixed.perfect_crawl().items()
        if expected.kind not in ("page", "calendar", "spiral", "flood", "bomb")
    }
    wanted = (200, 301, 302, 307, 308, 403, 404, 406, 410, 500)
    assert answers >= {f"HTTP/1.1 {status}" for status in wanted}


def test_the_same_settings_are_the_same_web(mixed):
    front_pages = [get(mixed, "/", host) for host in range(MIXED.hosts)]
    robots = [get(mixed, "/robots.txt", host) for host in range(MIXED.hosts)]
    with SyntheticWeb(MIXED) as again:
        port, other_port = (web.seeds[0].rpartition(":")[2] for web in (mixed, again))

        def as_there(text: bytes) -> bytes:
            return text.replace(other_port.encode(), port.encode())

        there = {as_there(url.encode()).decode() for url in again.perfect_crawl()}
        assert there == mixed.perfect_crawl().keys()
        mixed.reset()
        again_pages = [get(again, "/", host) for host in range(MIXED.hosts)]
        for host, page in enumerate(front_pages):
            if b" 200 " in page[:20] and b" 200 " in again_pages[host][:20]:
                assert as_there(again_pages[host]) == page
        assert [as_there(get(again, "/robots.txt", host)) for host in range(MIXED.hosts)] == robots


def test_another_seed_is_another_web(plain):
    with SyntheticWeb(WebSpec(hosts=20, pages=200, size_bytes=8000, seed=2)) as other:
        assert get(other, "/").partition(b"<body>")[2] != get(plain, "/").partition(b"<body>")[2]


async def test_its_dns_knows_its_hosts_and_no_other(plain):
    address, _, port = plain.dns_server.partition(":")
    resolver = aiodns.DNSResolver(nameservers=[address], udp_port=int(port), timeout=20, tries=1)
    try:
        known = await resolver.query_dns(host_name(7).upper(), "A")
        (record,) = known.answer
        assert isinstance(record.data, pycares.ARecordData)
        assert (record.data.addr, record.ttl) == (host_address(7), 300)
        with pytest.raises(aiodns.error.DNSError) as no_ipv6:
            await resolver.query_dns(host_name(7), "AAAA")
        assert no_ipv6.value.args[0] == pycares.errno.ARES_ENODATA
        for unknown in ("w7.site9.test", "w20.site10.test", "example.org"):
            with pytest.raises(aiodns.error.DNSError) as refused:
                await resolver.query_dns(unknown, "A")
            assert refused.value.args[0] == pycares.errno.ARES_ENOTFOUND
    finally:
        await resolver.close()


def test_the_ledger_has_every_request_with_its_times(plain):
    plain.reset()
    get(plain, "/robots.txt", 3)
    get(plain, "/?utm_source=x", 3)
    get(plain, "/nothing", 3)
    first, second, third = plain.ledger()
    assert (first.is_robots, first.status, first.host) == (True, 200, host_name(3))
    assert (second.path, second.url) == ("/?utm_source=x", plain.seeds[3])
    assert (third.status, third.agent) == (404, AGENT)
    assert first.arrived_ns <= first.ended_ns < second.arrived_ns <= second.ended_ns
    assert len({first.connection, second.connection, third.connection}) == 3
    counts = plain.counts()
    assert (counts.requests, counts.robots, counts.pages) == (3, 1, 1)
    assert counts.statuses == {"200": 2, "404": 1}
    assert counts.connections == 3


def test_a_host_answers_at_its_own_address_alone(plain):
    answer = get(plain, "/", host=1, name=host_name(2))
    assert answer.startswith(b"HTTP/1.1 421 ")


def test_pages_have_the_size_that_is_asked_for(plain):
    head, _, body = get(plain, "/").partition(b"\r\n\r\n")
    assert b"\r\nContent-Length: 8000" in head
    assert len(body) == 8000


def test_nearly_half_of_the_links_lead_to_what_is_linked_elsewhere_too(plain):
    links: Counter[str] = Counter()
    for url in plain.perfect_crawl():
        path = "/" + url.split("/", 3)[3]
        for part in get(plain, path, number_of(url)).decode().split('href="')[1:]:
            href = part.partition('"')[0]
            links[href if href.startswith("http") else f"{url.rpartition(path)[0]}{href}"] += 1
    total = links.total()
    new = sum(1 for href in links if ".site" in href) - PLAIN.hosts
    outside = sum(count for href, count in links.items() if ".elsewhere" in href)
    assert 0.40 < 1 - (new + outside) / total < 0.50
    assert outside == sum(1 for href in links if ".elsewhere" in href)


def test_a_busy_host_says_for_how_long_in_every_way_there_is():
    spec = WebSpec(hosts=150, pages=150, profile="web", extras=("headerless-503",))
    with SyntheticWeb(spec) as web:
        heads = [get(web, "/", host).partition(b"\r\n\r\n")[0] for host in range(spec.hosts)]
        said = Counter(
            (head[9:12], _retry_after(head)) for head in heads if head[9:12] in (b"429", b"503")
        )
        assert said.keys() == {
            (b"429", "seconds"),
            (b"429", "date"),
            (b"503", "seconds"),
            (b"503", "nothing"),
        }
        for visit in web.ledger():
            head = heads[number_of(visit.url)]
            assert (visit.blocked_until_ns > visit.ended_ns) == (b"Retry-After" in head)


def _retry_after(head: bytes) -> str:
    value = head.partition(b"Retry-After: ")[2].partition(b"\r")[0]
    if not value:
        return "nothing"
    return "seconds" if value.isdigit() else "date"


def test_robots_that_come_late_are_there_at_the_third_time():
    spec = WebSpec(hosts=100, pages=100, profile="web", extras=("robots-5xx",))
    with SyntheticWeb(spec) as web:
        late = [host for host in range(spec.hosts) if get(web, "/robots.txt", host)[9:12] == b"503"]
        assert late
        for _ in range(2):
            answers = {get(web, "/robots.txt", host)[9:12] for host in late}
        assert answers == {b"200"}


def test_a_drip_goes_on_until_the_visitor_leaves():
    spec = WebSpec(hosts=20, pages=400, profile="web", extras=("drip",))
    with SyntheticWeb(spec) as web:
        url = next(url for url, one in web.perfect_crawl().items() if one.kind == "drip")
        _, _, authority, path = url.split("/", 3)
        # A busy host sends its first visitors away.
        for _ in range(2):
            get(web, "/", number_of(url))
        place = (host_address(number_of(url)), int(authority.partition(":")[2]))
        with socket.create_connection(place, timeout=20) as connection:
            connection.sendall(f"GET /{path} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
            text = b""
            while not text.endswith(b"<p>..."):
                text += connection.recv(4096)
            assert web.counts().requests == 2
        assert wait_until(lambda: web.counts().requests == 3, 20)
        drip = web.ledger()[-1]
        assert (drip.url, drip.status) == (url, 0)


@pytest.mark.parametrize("peer", [scrapy, pytest.param(colly, marks=pytest.mark.proof, id="colly")])
def test_a_peer_crawls_all_of_it(peer):
    spec = WebSpec(hosts=8, pages=48, size_bytes=8000)
    with SyntheticWeb(spec) as web:
        done = peer().crawl(web, concurrency=20, delay_s=0.0)
        visits = web.ledger()
        result = coverage(web.perfect_crawl(), visits)
        assert result.is_exact, str(result)
        assert done.failed == 0
        assert done.pages >= spec.pages
        assert {visit.agent for visit in visits} == {USER_AGENT}
        assert {visit.host for visit in visits if visit.is_robots} == {
            host_name(host) for host in range(spec.hosts)
        }


def test_its_certificates_are_those_of_its_own_authority():
    with SyntheticWeb(WebSpec(hosts=4, pages=4, has_tls=True)) as web:
        port = int(web.seeds[2].rpartition(":")[2].strip("/"))
        trust = ssl.create_default_context(cafile=str(web.ca_file))
        with (
            socket.create_connection((host_address(2), port), timeout=20) as plain_connection,
            trust.wrap_socket(plain_connection, server_hostname=host_name(2)) as connection,
        ):
            connection.sendall(f"GET / HTTP/1.1\r\nHost: {host_name(2)}\r\n\r\n".encode())
            assert connection.recv(15) == b"HTTP/1.1 200 OK"
        # A visit is written down when it is over.
        assert wait_until(lambda: web.counts().requests == 1, 20)
        assert web.ledger()[0].url == web.seeds[2]
