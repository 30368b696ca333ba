"""Records as documents of a real Elasticsearch: each once, whatever happens on the way."""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import ClientError

import devservers.elasticsearch
from devservers import ElasticsearchServer, Toxiproxy
from manyhands.shared.crawl.page_fields import VERSION
from manyhands.shared.errors import ConfigError
from manyhands.worker.records import PlainRecord, Record
from manyhands.worker.sinks.protocol import RecordsRefused
from manyhands.worker.sinks.servers import elasticsearch as sink_module
from manyhands.worker.sinks.servers.elasticsearch import ElasticsearchSink
from manyhands.worker.sinks.servers.elasticsearch_bulk import requests_of
from tests.support.shared_server import SharedServer
from tests.support.sink_records import (
    LATER_FIELDS,
    MEGABYTE,
    full_page,
    hostile_pages,
    page,
    page_outside_of_crawls,
    plain,
    until,
    written,
)

pytestmark = pytest.mark.jvm

Sources = dict[str, Any]


class Indices:
    """What a server holds of one test."""

    def __init__(self, url: str, name: str) -> None:
        self.name = name
        self.sink_url = f"{url.replace('http', 'elasticsearch')}/{name}"
        self._http = httpx.Client(base_url=url, trust_env=False, timeout=60)

    def call(self, method: str, path: str, **options: Any) -> Any:
        answer = self._http.request(method, path, **options)
        assert answer.is_success, answer.text
        return answer.json()

    def sources(self, kind: str) -> Sources:
        """All documents by their ids."""
        index = f"/{self.name}-{kind}"
        self.call("POST", f"{index}/_refresh")
        found = self.call("GET", f"{index}/_search?size=10000")["hits"]["hits"]
        return {hit["_id"]: hit["_source"] for hit in found}

    def ids(self, kind: str = "pages") -> list[str]:
        return sorted(self.sources(kind))

    def found_by(self, **term: Any) -> list[str]:
        query = {"query": {"term": term}}
        hits = self.call("GET", f"/{self.name}-pages/_search", json=query)["hits"]["hits"]
        return sorted(hit["_id"] for hit in hits)

    def block(self, kind: str, name: str, *, is_on: bool) -> None:
        setting = {f"index.blocks.{name}": is_on}
        self.call("PUT", f"/{self.name}-{kind}/_settings", json=setting)

    def close(self) -> None:
        self._http.close()


@pytest.fixture
def indices(elasticsearch_server: SharedServer) -> Iterator[Indices]:
    indices = Indices(elasticsearch_server.url, f"test-{secrets.token_hex(4)}")
    yield indices
    indices.close()


@pytest.fixture
async def sink(indices: Indices) -> AsyncIterator[ElasticsearchSink]:
    sink = ElasticsearchSink(indices.sink_url)
    await sink.open()
    yield sink
    await sink.close()


@pytest.fixture(scope="module")
def own_server() -> Iterator[ElasticsearchServer]:
    """One that may be killed, and that takes less than others do."""
    usual = devservers.elasticsearch._settings

    def settings(directory: Path, *ports: int) -> Any:
        return {**usual(directory, *ports), "http.max_content_length": "1mb"}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(devservers.elasticsearch, "_settings", settings)
        with ElasticsearchServer() as server:
            yield server


@pytest.fixture
def own_indices(own_server: ElasticsearchServer) -> Iterator[Indices]:
    indices = Indices(own_server.url, f"test-{secrets.token_hex(4)}")
    yield indices
    indices.close()


@pytest.fixture
async def own_sink(own_indices: Indices) -> AsyncIterator[ElasticsearchSink]:
    sink = ElasticsearchSink(own_indices.sink_url)
    await sink.open()
    yield sink
    await sink.close()


# What arrives


async def test_a_page_arrives_with_all_its_fields(sink: ElasticsearchSink, indices: Indices):
    await sink.write([page(1)])
    assert indices.sources("pages") == {
        page(1).id: {
            "id": page(1).id,
            "url": "https://site.example/1",
            "final_url": "https://site.example/1?final",
            "status": 200,
            "content_type": "text/html; charset=utf-8",
            "title": "Page 1 – ä",
            "language": "de",
            "links": [f"https://site.example/1/{link}" for link in range(3)],
            "is_truncated": False,
            "fetched_at": "2026-11-17T05:44:33.123456Z",
            "crawl": 7,
            "visit": 1,
            "depth": 2,
            "is_indexable": True,
        }
        | LATER_FIELDS
    }


async def test_a_page_with_every_field_arrives(sink: ElasticsearchSink, indices: Indices):
    await sink.write([full_page(1)])
    assert indices.sources("pages") == {page(1).id: asdict(full_page(1))}
    assert indices.found_by(text="paragraphs") == [page(1).id]
    assert indices.found_by(canonical="https://site.example/it") == [page(1).id]


async def test_an_index_of_the_first_schema_gets_the_later_fields(indices: Indices):
    name = f"/{indices.name}-pages"
    first = {"dynamic": False, "properties": {"id": {"type": "keyword"}, "title": {"type": "text"}}}
    indices.call("PUT", name, json={"mappings": first})
    indices.call("PUT", f"{name}/_doc/old", json={"id": "old", "title": "Old"})
    sink = ElasticsearchSink(indices.sink_url)
    await sink.write([full_page(1)])
    await sink.close()
    assert indices.ids() == sorted(["old", page(1).id])
    assert indices.found_by(text="paragraphs") == [page(1).id]
    mapping = indices.call("GET", f"{name}/_mapping")[name[1:]]["mappings"]
    assert mapping["_meta"] == {"page_schema": VERSION}


async def test_pages_are_found_by_their_fields(sink: ElasticsearchSink, indices: Indices):
    await sink.write([page(1), page(2, status=404), page_outside_of_crawls(3)])
    indices.ids()
    assert indices.found_by(url="https://site.example/1") == [page(1).id]
    assert indices.found_by(links="https://site.example/2/1") == [page(2).id]
    assert indices.found_by(status=404) == [page(2).id]
    assert indices.found_by(fetched_at="2026-11-17T05:44:33.123456Z") == [
        *sorted([page(1).id, page(2).id, "job-3"])
    ]
    assert indices.found_by(title="page") == [page(1).id, page(2).id]


async def test_the_log_of_an_index_is_synced_with_every_request(
    sink: ElasticsearchSink, indices: Indices
):
    for kind in ("pages", "records"):
        name = f"{indices.name}-{kind}"
        settings = indices.call("GET", f"/{name}/_settings?flat_settings")[name]["settings"]
        assert settings["index.translog.durability"] == "request"


async def test_records_arrive_as_json(sink: ElasticsearchSink, indices: Indices):
    bodies: list[Any] = [{"a": {"b": [1, 2]}, "when": "2026-11-17"}, ["a", "b"], "text", None]
    await sink.write([PlainRecord(str(number), body) for number, body in enumerate(bodies)])
    # What is no object is told from those that are: an index knows a field in one way only.
    assert [source["body"] for _, source in sorted(indices.sources("records").items())] == [
        bodies[0],
        *({"value": body} for body in bodies[1:]),
    ]


async def test_text_that_looks_like_a_date_does_not_shut_out_other_text(
    sink: ElasticsearchSink, indices: Indices
):
    await sink.write([plain(1, {"when": "2026-11-17"}), plain(2, {"when": "tomorrow"})])
    assert indices.ids("records") == ["job.1", "job.2"]


async def test_a_batch_beyond_the_size_of_a_request_arrives(
    sink: ElasticsearchSink, indices: Indices
):
    links = [f"https://l.example/{'a' * 90}/{number}" for number in range(200)]
    await sink.write([page(number, links=links) for number in range(1000)])
    assert len(indices.ids()) == 1000


# Once


async def test_the_same_batch_twice_makes_no_second_document(
    sink: ElasticsearchSink, indices: Indices
):
    for title in ("first", "again"):
        await sink.write([page(1, title=title), plain(1)])
    found = indices.sources("pages")
    assert [source["title"] for source in found.values()] == ["first"]
    assert indices.ids("records") == ["job.1"]


async def test_an_id_that_stands_twice_in_a_batch_is_one_document(
    sink: ElasticsearchSink, indices: Indices
):
    await sink.write([page(1), plain(1), page(1), PlainRecord(page(1).id, {})])
    assert (indices.ids(), indices.ids("records")) == ([page(1).id], [page(1).id, "job.1"])


async def test_many_processes_may_start_at_once(indices: Indices):
    sinks = [ElasticsearchSink(indices.sink_url) for _ in range(6)]
    await asyncio.gather(*(sink.write([page(n)]) for n, sink in enumerate(sinks)))
    assert len(indices.ids()) == 6
    for sink in sinks:
        await sink.close()


# Hostile text


async def test_hostile_pages_arrive(sink: ElasticsearchSink, indices: Indices):
    await sink.write(hostile_pages())
    found = {id.removeprefix("hostile."): one for id, one in indices.sources("pages").items()}
    assert found["nul"]["title"] == "before\0after"
    assert found["half a pair"]["title"] == "before\ufffdafter"
    assert found["beyond the BMP"]["title"] == "\U0001f577 \U0010fffd"
    assert len(found["long"]["title"]) == MEGABYTE // 2
    assert len(found["url"]["url"]) == 8192 + len("https://site.example/")
    assert found["links"]["links"] == [f"https://l.example/{n}" for n in range(6000)]
    assert found["type"]["language"] == "\ufffd"


# What can never be taken


async def test_documents_that_do_not_fit_the_mapping_are_refused_by_their_place(
    sink: ElasticsearchSink, indices: Indices
):
    await sink.write([plain(0, {"count": 1})])
    batch: list[Record] = [
        page(1),
        plain(1, {"count": "many"}),
        plain(2, {"count": 2}),
        page(2, fetched_at="yesterday"),
        plain(3, {"count": {"of": "what"}}),
        page(3),
    ]
    with pytest.raises(RecordsRefused) as refused:
        await sink.write(batch)
    reasons = refused.value.reasons
    assert sorted(reasons) == [1, 3, 4]
    assert "failed to parse field [body.count]" in reasons[1]
    assert "failed to parse field [fetched_at]" in reasons[3]
    assert all("\n" not in reason and len(reason) <= 300 for reason in reasons.values())
    await sink.write([one for place, one in enumerate(batch) if place not in reasons])
    assert indices.ids() == [page(1).id, page(3).id]
    assert indices.ids("records") == ["job.0", "job.2"]


async def test_what_can_be_no_document_is_refused_before_anything_is_sent(
    sink: ElasticsearchSink, indices: Indices
):
    batch = [
        plain(1),
        PlainRecord("a" * 513, {}),
        PlainRecord("", {}),
        PlainRecord("set", {1}),
        PlainRecord("half\ud800", {}),
        PlainRecord("a" * 512, {}),
    ]
    with pytest.raises(RecordsRefused) as refused:
        await sink.write(batch)
    assert sorted(refused.value.reasons) == [1, 2, 3, 4]
    assert indices.ids("records") == []
    await sink.write([batch[0], batch[5]])
    assert indices.ids("records") == ["a" * 512, "job.1"]


async def test_a_server_that_takes_less_gets_less_at_a_time(
    own_sink: ElasticsearchSink, own_indices: Indices
):
    small = [plain(number, {"text": "a" * 100_000}) for number in range(40)]
    large = plain(100, {"text": os.urandom(MEGABYTE).hex()})
    with pytest.raises(RecordsRefused, match="too large for the server") as refused:
        await own_sink.write([*small[:17], large, *small[17:]])
    assert list(refused.value.reasons) == [17]
    await own_sink.write(small)
    assert len(own_indices.ids("records")) == 40


# Faults


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of all documents that were sent."""
    ids: list[str] = []

    def requests(documents: Any) -> Any:
        for together in requests_of(documents):
            ids.extend(document.name[1] for _, document in together)
            yield together

    monkeypatch.setattr(sink_module, "requests_of", requests)
    return ids


async def test_only_what_failed_is_sent_again(
    sink: ElasticsearchSink, indices: Indices, sent: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sink_module, "DELAYS_S", (0.01,))
    # So does a server whose disk is nearly full.
    indices.block("records", "read_only_allow_delete", is_on=True)
    with pytest.raises(ConnectionError, match="2 documents wait: cluster_block_exception"):
        await sink.write([page(1), plain(1), page(2), plain(2)])
    assert sent == [page(1).id, "job.1", page(2).id, "job.2", "job.1", "job.2"]
    indices.block("records", "read_only_allow_delete", is_on=False)
    sent.clear()
    await sink.write([page(1), plain(1), page(2), plain(2)])
    assert sent == ["job.1", "job.2"]
    assert (indices.ids(), indices.ids("records")) == (
        [page(1).id, page(2).id],
        ["job.1", "job.2"],
    )
    sent.clear()
    await sink.write([page(1)])
    assert sent == [page(1).id]


async def test_what_gets_room_in_the_end_needs_no_second_batch(
    sink: ElasticsearchSink, indices: Indices, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sink_module, "DELAYS_S", (0.2,) * 50)
    indices.block("pages", "read_only_allow_delete", is_on=True)
    write = asyncio.create_task(sink.write([page(1), plain(1)]))
    await asyncio.sleep(0.5)
    assert not write.done()
    await asyncio.to_thread(indices.block, "pages", "read_only_allow_delete", is_on=False)
    await write
    assert indices.ids() == [page(1).id]


async def test_an_index_that_is_shut_refuses_no_document(sink: ElasticsearchSink, indices: Indices):
    """It is the operator's to open it; the documents are all right."""
    indices.block("pages", "write", is_on=True)
    with pytest.raises(ConnectionError, match="cluster_block_exception"):
        await sink.write([page(1), plain(1)])
    indices.block("pages", "write", is_on=False)
    indices.call("POST", f"/{indices.name}-records/_close")
    with pytest.raises(ConnectionError, match="closed"):
        await sink.write([page(1), plain(2)])
    indices.call("POST", f"/{indices.name}-records/_open")
    await sink.write([page(1), plain(1), plain(2)])
    assert (indices.ids(), indices.ids("records")) == ([page(1).id], ["job.1", "job.2"])


async def test_documents_outlive_a_server_that_is_killed(
    own_server: ElasticsearchServer, own_sink: ElasticsearchSink, own_indices: Indices
):
    await own_sink.write([page(1)])
    own_server.kill()
    with pytest.raises((OSError, ClientError)):
        await own_sink.write([page(1), page(2)])
    await asyncio.to_thread(own_server.start)
    await written(own_sink, [page(1), page(2)])
    assert own_indices.ids() == [page(1).id, page(2).id]


async def test_every_page_is_there_once_though_the_server_is_killed_in_mid_batch(
    own_server: ElasticsearchServer, own_sink: ElasticsearchSink, own_indices: Indices
):
    async def kill_and_start() -> None:
        await asyncio.sleep(1)
        await asyncio.to_thread(own_server.kill)
        await asyncio.to_thread(own_server.start)

    killing = asyncio.create_task(kill_and_start())
    done = attempts = 0
    while not killing.done():
        batch = [page(number) for number in range(done * 100, done * 100 + 100)]
        attempts += await written(own_sink, batch)
        done += 1
    await killing
    assert attempts > done
    own_indices.call("POST", f"/{own_indices.name}-pages/_refresh")
    assert own_indices.call("GET", f"/{own_indices.name}-pages/_count")["count"] == done * 100


async def test_an_answer_that_was_lost_makes_no_second_document(
    elasticsearch_server: SharedServer, toxiproxy: Toxiproxy, indices: Indices
):
    proxy = toxiproxy.proxy(elasticsearch_server.port)
    sink = ElasticsearchSink(f"elasticsearch://127.0.0.1:{proxy.port}/{indices.name}")
    await sink.open()
    proxy.add_toxic("latency", latency=2000)
    write = asyncio.create_task(sink.write([page(1), page(2)]))

    async def is_there() -> bool:
        return bool(await asyncio.to_thread(indices.ids))

    await until(is_there)
    await asyncio.to_thread(proxy.cut)
    proxy.remove_toxics()
    with pytest.raises(ClientError):
        await write
    await sink.write([page(1), page(2), page(3)])
    assert indices.ids() == [page(1).id, page(2).id, page(3).id]
    await sink.close()


async def test_a_server_that_falls_silent_is_given_up_in_time(
    elasticsearch_server: SharedServer,
    toxiproxy: Toxiproxy,
    indices: Indices,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(sink_module, "COMMAND_S", 0.5)
    proxy = toxiproxy.proxy(elasticsearch_server.port)
    sink = ElasticsearchSink(f"elasticsearch://127.0.0.1:{proxy.port}/{indices.name}")
    proxy.add_toxic("timeout", timeout=0)
    for attempt in (sink.open, lambda: sink.write([page(1)])):
        with pytest.raises(TimeoutError, match=r"no answer within 0\.5 s"):
            await attempt()
    await sink.close()


# Settings that are wrong


async def test_a_name_that_can_be_no_index_is_told(elasticsearch_server: SharedServer):
    sink = ElasticsearchSink(f"elasticsearch://127.0.0.1:{elasticsearch_server.port}/Crawl")
    with pytest.raises(ConfigError) as refused:
        await sink.open()
    await sink.close()
    assert str(refused.value) == (
        f"SINKS: elasticsearch://127.0.0.1:{elasticsearch_server.port}/Crawl: "
        "invalid_index_name_exception: Invalid index name [Crawl-pages], must be lowercase"
    )


async def test_a_server_that_is_not_there_is_tried_again():
    sink = ElasticsearchSink("elasticsearch://user:s3cret@127.0.0.1:1/crawl")
    for attempt in (sink.open, lambda: sink.write([page(1)])):
        with pytest.raises(OSError, match="Cannot connect to host") as failed:
            await attempt()
        assert "s3cret" not in str(failed.value)
    await sink.close()


async def test_an_index_of_the_users_own_is_left_as_it_is(indices: Indices):
    for kind in ("pages", "records"):
        indices.call("PUT", f"/real-{indices.name}-{kind}", json={"mappings": {"dynamic": False}})
        alias = {"add": {"index": f"real-{indices.name}-{kind}", "alias": f"{indices.name}-{kind}"}}
        indices.call("POST", "/_aliases", json={"actions": [alias]})
    sink = ElasticsearchSink(indices.sink_url)
    await sink.open()
    await sink.write([page(1)])
    await sink.close()
    assert indices.ids() == [page(1).id]
    assert indices.call("GET", f"/real-{indices.name}-pages/_count")["count"] == 1
