"""Answers that the Elasticsearch of our tests does not give: those of a login, and of proxies."""

import ssl
from base64 import b64encode
from collections.abc import AsyncIterator

import orjson
import pytest
import trustme

from manyhands.shared.crawl.page_fields import VERSION
from manyhands.shared.errors import ConfigError
from manyhands.worker.sinks.protocol import RecordsRefused
from manyhands.worker.sinks.servers import elasticsearch as sink_module
from manyhands.worker.sinks.servers.elasticsearch import BULK_PATH, ElasticsearchSink
from tests.support.local_site import LocalSite, answer
from tests.support.sink_records import page

DENIED = {
    "error": {
        "type": "security_exception",
        "reason": "unable to authenticate user [bob] for REST request [/crawl-pages]",
    }
}

MAPPING_PATH = "/crawl-pages/_mapping"
PRESENT = {"mappings": {"_meta": {"page_schema": VERSION}}}


@pytest.fixture
async def server() -> AsyncIterator[LocalSite]:
    async with LocalSite() as site:
        site.answers["*"] = answer(200)
        site.answers[MAPPING_PATH] = answer(200, orjson.dumps({"crawl-pages": PRESENT}))
        yield site


@pytest.fixture
async def sink(server: LocalSite) -> AsyncIterator[ElasticsearchSink]:
    sink = ElasticsearchSink(f"elasticsearch://b%3Ab:p%40ss%C3%A9@127.0.0.1:{server.port}/crawl")
    yield sink
    await sink.close()


async def test_user_and_password_are_sent(server: LocalSite, sink: ElasticsearchSink):
    await sink.open()
    login = b64encode("b:b:p@ssé".encode()).decode()
    assert f"authorization: basic {login}".lower() in server.requests[0].lower()


@pytest.mark.parametrize(
    ("status", "remedy"),
    [
        (401, "check user and password, with special characters URL-escaped"),
        (403, "let the user create these indices, change their mappings and write to them"),
    ],
)
async def test_a_login_that_is_denied_is_a_setting_that_is_wrong(
    server: LocalSite, sink: ElasticsearchSink, status: int, remedy: str
):
    server.answers["/crawl-pages"] = answer(status)
    with pytest.raises(ConfigError) as refused:
        await sink.open()
    place = f"elasticsearch://127.0.0.1:{server.port}/crawl"
    assert str(refused.value) == f"SINKS: {place}: status {status}: {remedy}"


async def test_what_the_server_says_of_a_denied_write_is_told(
    server: LocalSite, sink: ElasticsearchSink
):
    server.answers[BULK_PATH] = answer(401, orjson.dumps(DENIED))
    with pytest.raises(ConfigError, match=r"unable to authenticate user \[bob\].*check user"):
        await sink.write([page(1)])


@pytest.mark.parametrize("status", [429, 502, 503])
async def test_a_request_that_there_was_no_room_for_is_sent_again(
    server: LocalSite, sink: ElasticsearchSink, monkeypatch: pytest.MonkeyPatch, status: int
):
    monkeypatch.setattr(sink_module, "DELAYS_S", (0.001, 0.001))
    server.answers[BULK_PATH] = answer(status, b"<h1>Nope</h1>")
    with pytest.raises(ConnectionError, match=f"2 documents wait: status {status}"):
        await sink.write([page(1), page(2)])
    assert server.paths.count(BULK_PATH) == 3
    server.answers[BULK_PATH] = answer(200, b'{"errors":false}')
    await sink.write([page(1), page(2)])


@pytest.mark.parametrize("status", [301, 404, 405])
async def test_a_server_that_is_something_else_is_told(
    server: LocalSite, sink: ElasticsearchSink, status: int
):
    server.answers["*"] = answer(status, Location="/elsewhere")
    with pytest.raises(ConnectionError, match=f"status {status}"):
        await sink.open()


async def test_an_index_of_an_older_release_gets_the_later_fields(
    server: LocalSite, sink: ElasticsearchSink
):
    server.answers[MAPPING_PATH] = answer(200, b'{"crawl-pages-000001": {"mappings": {}}}')
    await sink.open()
    assert [request.partition(" ")[0] for request in server.requests].count("PUT") == 1


async def test_an_index_that_is_as_ours_is_left_alone(server: LocalSite, sink: ElasticsearchSink):
    await sink.open()
    assert [request.partition(" ")[0] for request in server.requests].count("PUT") == 0


async def test_an_answer_of_something_else_is_no_success(
    server: LocalSite, sink: ElasticsearchSink
):
    server.answers[BULK_PATH] = answer(200, b"<h1>It works!</h1>")
    with pytest.raises(ValueError, match="does not come from Elasticsearch"):
        await sink.write([page(1)])


async def test_a_document_that_no_proxy_lets_through_is_refused(
    server: LocalSite, sink: ElasticsearchSink
):
    server.answers[BULK_PATH] = answer(413)
    with pytest.raises(RecordsRefused) as refused:
        await sink.write([page(1), page(2), page(3)])
    assert sorted(refused.value.reasons) == [0, 1, 2]


async def test_a_certificate_that_nobody_vouches_for_is_not_trusted():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    async with LocalSite().with_tls(context) as site:
        sink = ElasticsearchSink(f"elasticsearch+https://127.0.0.1:{site.port}/crawl")
        with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
            await sink.open()
        await sink.close()


def test_a_list_of_hosts_is_a_setting_that_is_wrong():
    with pytest.raises(ConfigError, match="name one host"):
        ElasticsearchSink("elasticsearch://one,two/crawl")


def test_its_name_says_neither_user_nor_password():
    sink = ElasticsearchSink("elasticsearch+https://bob:s3cret@host/crawl")
    assert sink.name == "elasticsearch+https://host:9200/crawl"
