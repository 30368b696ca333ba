"""The messages of a record. That Kafka takes them is in tests/integration/test_kafka_sink.py."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.shared.crawl.page_fields import VERSION
from manyhands.worker.records import Capture, PlainRecord
from manyhands.worker.sinks.servers import kafka_messages
from manyhands.worker.sinks.servers.kafka_messages import Topics, messages_of, topics_of
from tests.support.sink_records import page, plain

TOPICS = topics_of("crawl")
CAPTURE = Capture("id", "url", "2026-11-17T05:44:33Z", "127.0.0.1", b"", b"", b"", False)


def test_a_topic_names_three():
    assert Topics("crawl-pages", "crawl-edges", "crawl-records") == TOPICS


def test_a_page_is_a_message_of_its_fields_and_one_of_its_links():
    (pages, page_key, fields), (edges, edges_key, links) = messages_of(page(1), TOPICS)
    assert (pages, edges) == ("crawl-pages", "crawl-edges")
    assert page_key == edges_key == page(1).id.encode()
    assert orjson.loads(fields) == {
        name: value
        for name, value in orjson.loads(orjson.dumps(page(1))).items()
        if name not in ("links", "link_texts", "link_rels")
    }
    assert orjson.loads(links) == {
        "page": page(1).id,
        "crawl": 7,
        "source": page(1).final_url,
        "targets": page(1).links,
        "schema": VERSION,
        "texts": None,
        "rels": None,
    }


def test_what_is_said_of_links_goes_with_them():
    links, texts, rels = ["https://a.example/", "https://b.example/"], ["a", ""], ["", "nofollow"]
    said = page(1, links=links, link_texts=texts, link_rels=rels)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kafka_messages, "MOST_LINK_CHARACTERS", 20)
        _, first, second = messages_of(said, TOPICS)
    parts = [orjson.loads(value) for _, _, value in (first, second)]
    assert [(part["targets"], part["texts"], part["rels"]) for part in parts] == [
        ([link], [text], [rel]) for link, text, rel in zip(links, texts, rels, strict=True)
    ]


def test_a_page_that_no_broker_takes_goes_without_its_largest_texts_and_says_so():
    large = page(1, html="h" * 800_000, text="t" * 200_000, title="small", cuts=["parse_limit"])
    value = orjson.loads(messages_of(large, TOPICS)[0][2])
    assert (value["html"], value["text"], value["title"]) == (None, "t" * 200_000, "small")
    assert (value["is_truncated"], value["cuts"]) == (True, ["parse_limit", "record_limit"])


def test_a_page_without_links_has_no_edges():
    assert [topic for topic, _, _ in messages_of(page(1, links=[]), TOPICS)] == ["crawl-pages"]


def test_a_record_is_one_message():
    assert messages_of(plain(1), TOPICS) == [
        ("crawl-records", b"job.1", b'{"id":"job.1","body":{"number":1}}')
    ]


@given(st.lists(st.text("abc", max_size=12), max_size=30))
def test_links_in_parts_are_all_links_in_order(links: list[str]):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kafka_messages, "MOST_LINK_CHARACTERS", 10)
        _, *edges = messages_of(page(1, id="id", links=links), TOPICS)
        again = messages_of(page(1, id="id", links=links), TOPICS)[1:]
    parts = [orjson.loads(value)["targets"] for _, _, value in edges]
    assert [link for part in parts for link in part] == links
    assert all(len("".join(part)) <= 10 or len(part) == 1 for part in parts)
    numbered = [b"id", *(b"id/%d" % number for number in range(2, len(edges) + 1))]
    assert [key for _, key, _ in edges] == numbered[: len(edges)]
    assert again == edges


def test_ids_that_differ_in_half_a_pair_are_two_keys():
    keys = {messages_of(PlainRecord(id, 1), TOPICS)[0][1] for id in ("\ud800", "\ud801", "\ufffd")}
    assert len(keys) == 3


def test_what_has_no_topic_is_an_error():
    with pytest.raises(TypeError, match="Capture"):
        messages_of(CAPTURE, TOPICS)
