"""Names by a real DNS server on loopback: both families, failures, what is kept, one question."""

import asyncio
from collections.abc import AsyncIterator
from ipaddress import ip_network

import pytest

from manyhands.shared.public_addresses import AddressRule
from manyhands.shared.settings import FetchSettings
from manyhands.shared.urls import parse_url
from manyhands.worker.net import dns as module
from manyhands.worker.net.dns import Dns
from manyhands.worker.net.fetcher import TemporaryFetchError
from manyhands.worker.net.http1_fetcher import Http1Fetcher
from tests.support.dns_server import NO_ERROR, SERVER_FAILURE, DnsServer, Zone
from tests.support.local_site import LocalSite, answer

ZONES = {
    "four.test": Zone(["192.0.2.1", "192.0.2.2"]),
    "six.test": Zone(["2001:db8::1"]),
    "both.test": Zone(["192.0.2.1", "2001:db8::1"]),
    "empty.test": Zone(code=NO_ERROR),
    "broken.test": Zone(code=SERVER_FAILURE),
    "silent.test": Zone(is_silent=True),
    "site.test": Zone(["127.0.0.1"]),
}


@pytest.fixture
async def server() -> AsyncIterator[DnsServer]:
    async with DnsServer(ZONES) as server:
        yield server


@pytest.fixture
async def names(server: DnsServer) -> AsyncIterator[Dns]:
    names = Dns([server.server])
    yield names
    await names.close()


@pytest.mark.parametrize(
    ("host", "addresses"),
    [
        ("four.test", {"192.0.2.1", "192.0.2.2"}),
        ("six.test", {"2001:db8::1"}),
        ("both.test", {"192.0.2.1", "2001:db8::1"}),
    ],
)
async def test_a_name_has_its_addresses_of_both_families(
    names: Dns, host: str, addresses: set[str]
) -> None:
    assert set(await names.addresses(host)) == addresses


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("missing.test", "dns: no such host"),
        ("empty.test", "dns: no address"),
        ("broken.test", "dns: server failure"),
    ],
)
async def test_a_name_without_address_has_its_reason(names: Dns, host: str, reason: str) -> None:
    with pytest.raises(TemporaryFetchError, match=host) as raised:
        await names.addresses(host)
    assert raised.value.reason == reason


async def test_a_server_that_is_silent_is_a_time_out(
    names: Dns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "QUESTION_TIMEOUT_S", 0.1)
    monkeypatch.setattr(module, "TRIES", 1)
    with pytest.raises(TemporaryFetchError) as raised:
        await names.addresses("silent.test")
    assert raised.value.reason == "time-out: dns"


async def test_the_file_of_hosts_counts(names: Dns, server: DnsServer) -> None:
    assert "127.0.0.1" in await names.addresses("localhost")
    assert server.asked == []


async def test_a_name_is_asked_for_once_by_many_and_then_remembered(
    names: Dns, server: DnsServer
) -> None:
    found = await asyncio.gather(*(names.addresses("four.test") for _ in range(50)))
    assert all(set(one) == {"192.0.2.1", "192.0.2.2"} for one in found)
    questions = list(server.asked)
    assert {name for name, _ in questions} == {"four.test"}
    assert len(questions) == len(set(questions))
    await names.addresses("four.test")
    assert server.asked == questions


async def test_a_name_that_is_missing_is_remembered_too(names: Dns, server: DnsServer) -> None:
    for _ in range(3):
        with pytest.raises(TemporaryFetchError):
            await names.addresses("missing.test")
    assert len(server.asked) == len(set(server.asked))


async def test_one_who_gives_up_does_not_spoil_it_for_the_others(
    names: Dns, server: DnsServer
) -> None:
    impatient = asyncio.create_task(names.addresses("four.test"))
    patient = asyncio.create_task(names.addresses("four.test"))
    await asyncio.sleep(0)
    impatient.cancel()
    assert set(await patient) == {"192.0.2.1", "192.0.2.2"}
    with pytest.raises(asyncio.CancelledError):
        await impatient


async def test_search_domains_are_not_tried(names: Dns, server: DnsServer) -> None:
    with pytest.raises(TemporaryFetchError):
        await names.addresses("single")
    assert {name for name, _ in server.asked} <= {"single"}


async def test_a_fetcher_asks_the_servers_of_its_settings(server: DnsServer) -> None:
    settings = FetchSettings(dns_servers=(server.server,))
    fetcher = Http1Fetcher(settings, AddressRule([ip_network("127.0.0.0/8")]))
    async with LocalSite() as site:
        site.answers["/"] = answer(body=b"found")
        told = await fetcher.get(
            parse_url(f"http://site.test:{site.port}/"),
            user_agent="Example/1.0",
            max_bytes=1000,
            check=lambda: None,
            wants_body=lambda _status, _content_type: True,
        )
        await fetcher.close()
    assert told.body == b"found"
    assert told.phases.dns_s > 0
    assert {name for name, _ in server.asked} == {"site.test"}
