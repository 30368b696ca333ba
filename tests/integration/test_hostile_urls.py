"""No URL reaches an address that is not public: not by its spelling, not by its name, not by a
redirect, not by an answer of DNS that changes.

A listener on loopback stands for everything that must not be reached. Every attempt to connect
anywhere is recorded as well, because most forbidden addresses have no listener here. The controls
show that the same URLs do connect when loopback is allowed.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
import trustme

from manyhands.shared.errors import InvalidUrl
from manyhands.shared.public_addresses import AddressRule
from manyhands.shared.settings import FetchSettings
from manyhands.worker.net.fetcher import (
    FetchError,
    ForbiddenAddress,
    PermanentFetchError,
    TemporaryFetchError,
)
from manyhands.worker.net.following import FollowingFetcher
from manyhands.worker.net.http1_fetcher import Http1Fetcher
from manyhands.worker.net.resolver import CheckedResolver
from tests.support.local_site import LocalSite, answer, redirect
from tests.support.stub_resolver import StubResolver

INSIDE = "127.0.0.1"
# Another address of this machine, which these tests allow, so that it can play the public web.
OUTSIDE = "127.0.0.2"
SETTINGS = FetchSettings(timeout_s=20, connect_timeout_s=20, read_timeout_s=20)

# PORT becomes that of the listener. These mean loopback, to us or to somebody.
LOOPBACK = [
    "http://127.0.0.1:PORT/",
    "http://127.0.0.1.:PORT/",
    "HTTP://127.0.0.1:PORT/",
    "http://2130706433:PORT/",
    "http://0x7f000001:PORT/",
    "http://0X7F.0x0.0x0.0x1:PORT/",
    "http://017700000001:PORT/",
    "http://0177.0.0.01:PORT/",
    "http://00000177.0.0.1:PORT/",
    "http://127.1:PORT/",
    "http://127.0.1:PORT/",
    "http://0x7f.1:PORT/",
    "http://127.0x0.0.1:PORT/",
    "http://0177.0x0.1:PORT/",
    "http://１２７.０.０.１:PORT/",
    "http://127。0。0。1:PORT/",
    "http://127．0．0．1:PORT/",
    "http://127｡0｡0｡1:PORT/",
    "http://①②⑦.⓪.⓪.①:PORT/",
    "http://[::ffff:127.0.0.1]:PORT/",
    "http://[::ffff:7f00:1]:PORT/",
    "http://[0:0:0:0:0:FFFF:7F00:0001]:PORT/",
    "http://localhost:PORT/",
    "http://LOCALHOST:PORT/",
    "http://localhost.:PORT/",
    "http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ:PORT/",
    "http://localhost。:PORT/",
    "http://localhost.localdomain:PORT/",
    "http://ip6-localhost:PORT/",
    "http://127.0.0.1.nip.io:PORT/",
    "http://spoofed.burpcollaborator.example:PORT/",
    "http://metadata.google.internal:PORT/computeMetadata/v1/",
    "http://kubernetes.default.svc:PORT/",
    "http://host.docker.internal:PORT/",
    "http://intranet:PORT/",
    "http://_service.example:PORT/",
]
# Addresses of machines that are nobody's business.
ELSEWHERE = [
    "http://0.0.0.0:PORT/",
    "http://0:PORT/",
    "http://0x0:PORT/",
    "http://[::]:PORT/",
    "http://[::1]:PORT/",
    "http://[0:0:0:0:0:0:0:1]:PORT/",
    "http://[::127.0.0.1]:PORT/",
    "http://[::ffff:0:127.0.0.1]:PORT/",
    "http://[64:ff9b::127.0.0.1]:PORT/",
    "http://[64:ff9b::7f00:1]:PORT/",
    "http://[64:ff9b:1::127.0.0.1]:PORT/",
    "http://[2002:7f00:1::]:PORT/",
    "http://[2002:a9fe:a9fe::]:PORT/",
    "http://[2001:0:808:808:0:0:80ff:fffe]:PORT/",
    "http://[fe80::1]:PORT/",
    "http://[fc00::1]:PORT/",
    "http://[fd00:ec2::254]/latest/meta-data/",
    "http://[fec0::1]:PORT/",
    "http://[ff02::1]:PORT/",
    "http://[2001:db8::1]:PORT/",
    "http://10.0.0.1:PORT/",
    "http://10.1:PORT/",
    "http://172.16.0.1:PORT/",
    "http://192.168.1.1:PORT/",
    "http://3232235777:PORT/",
    "http://100.64.0.1:PORT/",
    "http://169.254.169.254/latest/meta-data/",
    "http://0xa9fea9fe/latest/meta-data/",
    "http://0251.0376.0251.0376/latest/meta-data/",
    "http://2852039166/latest/meta-data/",
    "http://169.254.43518/latest/meta-data/",
    "http://[::ffff:a9fe:a9fe]/latest/meta-data/",
    "http://169.254.170.2/v2/credentials",
    "http://100.100.100.200/latest/meta-data/",
    "http://192.0.0.192/latest/",
    "http://198.18.0.1:PORT/",
    "http://203.0.113.1:PORT/",
    "http://224.0.0.1:PORT/",
    "http://255.255.255.255:PORT/",
    "https://127.0.0.1:PORT/",
    "https://localhost:PORT/",
]
# Texts that one parser or another could read as a way inside.
MALFORMED = [
    "http://example.com@127.0.0.1:PORT/",
    "http://user:password@localhost:PORT/",
    "http://127.0.0.1:PORT@example.com/",
    "http://example.com\\@127.0.0.1:PORT/",
    "http://127.0.0.1:PORT\\@example.com/",
    "http:\\\\127.0.0.1:PORT\\",
    "http://example.com\\.127.0.0.1:PORT/",
    "http:127.0.0.1:PORT/",
    "http:/127.0.0.1:PORT/",
    "http:///127.0.0.1:PORT/",
    "//127.0.0.1:PORT/",
    "127.0.0.1:PORT",
    "http://127.0.0.1:PORT\t/",
    "http://127.0.0\n.1:PORT/",
    "ht\ntp://127.0.0.1:PORT/",
    "\thttp://127.0.0.1:PORT/",
    " http://127.0.0.1:PORT/",
    "http://127.0.0.1\x00.example.com:PORT/",
    "http://127.0.0.1\r\nHost: example.com:PORT/",
    "http://127.0.0.1%00.example.com:PORT/",
    "http://127.0.0.1%23.example.com:PORT/",
    "http://%31%32%37.0.0.1:PORT/",
    "http://127%2e0%2e0%2e1:PORT/",
    "http://%6c%6f%63%61%6c%68%6f%73%74:PORT/",
    "http://[::1%25lo]:PORT/",
    "http://[::1%lo]:PORT/",
    "http://[fe80::1%25eth0]:PORT/",
    "http://[127.0.0.1]:PORT/",
    "http://[::1:PORT/",
    "http://::1:PORT/",
    "http://127.0.0.1.1:PORT/",
    "http://256.0.0.1:PORT/",
    "http://127.0.0.08:PORT/",
    "http://4294967297:PORT/",
    "http://127..0.0.1:PORT/",
    "http://.127.0.0.1:PORT/",
    "http://localhost..:PORT/",
    "http://127.0.0.1:0/",
    "http://127.0.0.1:99999/",
    "http://127.0.0.1:+PORT/",
    "http://127.0.0.1:-1/",
    "http://127.0.0.1:PORT:80/",
    "http://127.0.0.1：PORT/",
    "http://127.0.0.1／:PORT/",
    "http://℀.127.0.0.1:PORT/",
    "file:///etc/passwd",
    "ftp://127.0.0.1:PORT/",
    "gopher://127.0.0.1:PORT/_x",
    "dict://127.0.0.1:PORT/x",
    "unix:///var/run/docker.sock",
    "data:text/html,<p>x",
    "jar:http://127.0.0.1:PORT/!/",
    "view-source:http://127.0.0.1:PORT/",
    "http+unix://%2Fvar%2Frun%2Fdocker.sock/",
]
HOSTILE = LOOPBACK + ELSEWHERE + MALFORMED
# Some of the malformed ones are relative references: they stay where they are sent from.
RELATIVE = ("//", "127.0.0.1:", "http:127", "http:/127", "http:///")


def allowing(*networks: str) -> AddressRule:
    return AddressRule([ip_network(network) for network in networks])


@dataclass
class Inside:
    """The listener that nothing may reach, and every address that somebody tried to connect to."""

    site: LocalSite
    attempts: list[str] = field(default_factory=list)

    def at(self, url: str) -> str:
        return url.replace("PORT", str(self.site.port))

    def assert_untouched(self) -> None:
        assert self.attempts == []
        assert self.site.connections == 0


@pytest.fixture
async def inside(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Inside]:
    async with LocalSite(INSIDE) as site:
        site.answers["*"] = answer(body=b"<title>a secret</title>")
        inside = Inside(site)
        loop = asyncio.get_running_loop()
        real = loop.sock_connect

        async def recorded(sock: Any, address: Any) -> None:
            inside.attempts.append(address[0])
            await real(sock, address)

        monkeypatch.setattr(loop, "sock_connect", recorded)
        yield inside


@pytest.fixture
async def outside() -> AsyncIterator[LocalSite]:
    async with LocalSite(OUTSIDE) as site:
        site.answers["*"] = answer(body=b"public")
        yield site


async def fetch(
    url: str, rule: AddressRule, names: Mapping[str, Sequence[Sequence[str]]] | None = None
) -> bytes:
    """With a resolver that leads every name inside unless something else is said."""
    async with fetcher_of(StubResolver({"*": [[INSIDE]], **(names or {})}), rule) as fetcher:
        return (await fetcher.fetch(url)).body


@asynccontextmanager
async def fetcher_of(resolver: StubResolver, rule: AddressRule) -> AsyncIterator[FollowingFetcher]:
    hops = Http1Fetcher(SETTINGS, rule, lambda: resolver)
    try:
        yield FollowingFetcher(hops, SETTINGS)
    finally:
        await hops.close()


@pytest.mark.parametrize("url", HOSTILE)
async def test_a_hostile_url_connects_to_nothing(inside: Inside, url: str) -> None:
    with pytest.raises((InvalidUrl, PermanentFetchError)):
        await fetch(inside.at(url), AddressRule())
    inside.assert_untouched()


@pytest.mark.parametrize("url", LOOPBACK)
async def test_the_same_url_does_connect_where_loopback_is_allowed(
    inside: Inside, url: str
) -> None:
    body = await fetch(inside.at(url), allowing("127.0.0.0/8"))
    assert body == b"<title>a secret</title>"
    assert inside.attempts == [INSIDE]
    assert inside.site.connections == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_every_kind_of_redirect_is_followed_outside(
    inside: Inside, outside: LocalSite, status: int
) -> None:
    outside.answers["/from"] = redirect("/to", status)
    assert await fetch(outside.url + "/from", allowing(OUTSIDE)) == b"public"
    assert outside.paths == ["/from", "/to"]


@pytest.mark.parametrize("url", [url for url in HOSTILE if not url.startswith(RELATIVE)])
async def test_a_redirect_to_a_hostile_url_leads_nowhere(
    inside: Inside, outside: LocalSite, url: str
) -> None:
    # A header is one line; the rest of the text goes out as it is.
    outside.answers["/"] = redirect(inside.at(url).replace("\r", "").replace("\n", ""))
    with pytest.raises(FetchError):
        await fetch(outside.url + "/", allowing(OUTSIDE))
    assert inside.site.connections == 0
    assert inside.attempts == [OUTSIDE]


async def test_a_redirect_inside_is_refused_in_the_middle_of_a_chain(
    inside: Inside, outside: LocalSite
) -> None:
    outside.answers |= {
        "/1": redirect("/2"),
        "/2": redirect(f"//{OUTSIDE}:{outside.port}/3", 301),
        "/3": redirect(inside.site.url + "/secret", 307),
    }
    with pytest.raises(ForbiddenAddress, match=r"127\.0\.0\.1 is not a public address"):
        await fetch(outside.url + "/1", allowing(OUTSIDE))
    assert outside.paths == ["/1", "/2", "/3"]
    assert inside.site.connections == 0


async def test_a_redirect_to_a_name_that_leads_inside_is_refused(
    inside: Inside, outside: LocalSite
) -> None:
    outside.answers["/"] = redirect(f"http://innocent.example:{inside.site.port}/")
    with pytest.raises(ForbiddenAddress, match=r"innocent\.example has no public address"):
        await fetch(outside.url + "/", allowing(OUTSIDE))
    assert inside.site.connections == 0


@pytest.fixture
async def outside_with_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[LocalSite]:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(OUTSIDE).configure_cert(context)
    async with LocalSite(OUTSIDE).with_tls(context) as site:
        site.answers["*"] = answer(body=b"public by TLS")
        yield site


async def test_https_that_redirects_to_http_inside_is_refused(
    inside: Inside, outside_with_tls: LocalSite
) -> None:
    outside_with_tls.answers["/down"] = redirect(inside.site.url + "/")
    rule = allowing(OUTSIDE)
    assert await fetch(outside_with_tls.url + "/", rule) == b"public by TLS"
    with pytest.raises(ForbiddenAddress):
        await fetch(outside_with_tls.url + "/down", rule)
    assert inside.site.connections == 0


async def test_https_that_redirects_to_http_outside_is_followed(
    inside: Inside, outside: LocalSite, outside_with_tls: LocalSite
) -> None:
    outside_with_tls.answers["/down"] = redirect(outside.url + "/")
    assert await fetch(outside_with_tls.url + "/down", allowing(OUTSIDE)) == b"public"


# Names


async def test_a_name_is_connected_to_at_the_address_that_was_checked(
    inside: Inside, outside: LocalSite
) -> None:
    """Rebinding: the second answer of DNS leads inside, and nobody asks for it."""
    names = {"rebind.example": [[OUTSIDE], [INSIDE]]}
    body = await fetch(f"http://rebind.example:{outside.port}/", allowing(OUTSIDE), names)
    assert body == b"public"
    assert inside.attempts == [OUTSIDE]


async def test_a_name_that_leads_inside_the_next_time_is_refused_then(
    inside: Inside, outside: LocalSite
) -> None:
    resolver = StubResolver({"rebind.example": [[OUTSIDE], [INSIDE]]})
    url = f"http://rebind.example:{outside.port}/"
    async with fetcher_of(resolver, allowing(OUTSIDE)) as fetcher:
        assert (await fetcher.fetch(url)).body == b"public"
    async with fetcher_of(resolver, allowing(OUTSIDE)) as fetcher:
        with pytest.raises(ForbiddenAddress):
            await fetcher.fetch(url)
    assert resolver.asked == ["rebind.example"] * 2
    assert inside.attempts == [OUTSIDE]


async def test_of_several_addresses_only_the_allowed_ones_are_tried(
    inside: Inside, outside: LocalSite
) -> None:
    names = {"mixed.example": [[INSIDE, "::1", OUTSIDE, "10.0.0.1"]]}
    body = await fetch(f"http://mixed.example:{outside.port}/", allowing(OUTSIDE), names)
    assert body == b"public"
    assert inside.attempts == [OUTSIDE]


async def test_the_forbidden_addresses_are_no_fallback(inside: Inside) -> None:
    """Nobody listens outside on the listener's port, so a fallback would be tempting."""
    names = {"mixed.example": [[OUTSIDE, INSIDE]]}
    with pytest.raises(TemporaryFetchError):
        await fetch(f"http://mixed.example:{inside.site.port}/", allowing(OUTSIDE), names)
    assert inside.attempts == [OUTSIDE]
    assert inside.site.connections == 0


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "::1", "::ffff:127.0.0.1", "fe80::1%1", "169.254.169.254", "10.0.0.1"]
)
async def test_a_name_with_only_forbidden_addresses_is_refused_without_telling_them(
    inside: Inside, address: str
) -> None:
    with pytest.raises(ForbiddenAddress, match=r"inward\.example has no public address") as refused:
        await fetch("http://inward.example/", AddressRule(), {"inward.example": [[address]]})
    assert address not in str(refused.value)
    inside.assert_untouched()


async def test_the_socket_itself_refuses_what_slips_through_everything_else(
    inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unchecked(self: CheckedResolver, host: str) -> Any:
        return await self._inner.addresses(host)

    monkeypatch.setattr(CheckedResolver, "addresses", unchecked)
    for addresses in ([INSIDE], [INSIDE, "10.0.0.1"]):
        with pytest.raises(ForbiddenAddress, match="not permitted"):
            await fetch(
                f"http://inward.example:{inside.site.port}/",
                AddressRule(),
                {"inward.example": [addresses]},
            )
    inside.assert_untouched()


async def test_a_proxy_of_the_environment_is_not_used(
    inside: Inside, outside: LocalSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", inside.site.url)
    monkeypatch.setenv("HTTP_PROXY", inside.site.url)
    assert await fetch(outside.url + "/", allowing(OUTSIDE)) == b"public"
    assert inside.site.connections == 0


def test_the_table_is_long_enough_and_has_no_url_twice() -> None:
    assert len(set(HOSTILE)) == len(HOSTILE) >= 60
