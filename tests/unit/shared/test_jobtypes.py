"""The models of the job types: what a producer names is what a handler gets."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from manyhands.shared.jobs import MAX_RESERVE_FOR_S, check_queue_name
from manyhands.shared.jobtypes import JOB_TYPES, PARSE_QUEUE, FetchArguments, ParseArguments
from manyhands.shared.urls import shard_queue, shard_queues
from manyhands.worker.handlers import add, export, fetch, parse, warc
from manyhands.worker.jobs.context import JobContext
from manyhands.worker.jobs.registry import REGISTRY
from manyhands.worker.source.queue_order import QueueOrder

HANDLERS: dict[str, Callable[..., Any]] = {
    "add": add.add,
    "export": export.export,
    "fetch": fetch.fetch,
    "parse": parse.parse,
    "warc": warc.warc,
}


def test_every_type_has_a_handler_that_comes_with_the_worker():
    assert set(JOB_TYPES) == set(HANDLERS)
    for name in JOB_TYPES:
        assert REGISTRY.get(name) is not None


@pytest.mark.parametrize("name", JOB_TYPES)
def test_a_model_and_its_handler_agree_in_names_order_and_types(name):
    fields = JOB_TYPES[name].arguments.model_fields
    parameters = {
        parameter.name: parameter.annotation
        for parameter in inspect.signature(HANDLERS[name]).parameters.values()
        if parameter.annotation is not JobContext
    }
    assert list(parameters) == list(fields)
    assert parameters == {key: field.annotation for key, field in fields.items()}


@pytest.mark.parametrize("name", JOB_TYPES)
def test_what_a_type_asks_of_the_server_can_be_had(name):
    kind = JOB_TYPES[name]
    assert kind.name == name
    assert 1 <= kind.reserve_for_s <= MAX_RESERVE_FOR_S
    assert kind.retry >= -1


def test_a_fetch_is_queued_by_its_domain_and_a_parse_with_all_others():
    url = "https://news.example.co.uk/a"
    fetch_queue = JOB_TYPES["fetch"].queue_of(FetchArguments(url=url), 64)
    assert fetch_queue == shard_queue(url, 64)
    assert fetch_queue in shard_queues(64)
    check_queue_name(fetch_queue)
    assert JOB_TYPES["parse"].queue_of(None, 64) == PARSE_QUEUE


@pytest.mark.parametrize(
    ("name", "queues"),
    [
        ("add", "default"),
        ("fetch", "fetch.*"),
        ("parse", "parse"),
        ("warc", "warc"),
        ("export", "export"),
    ],
)
def test_a_type_is_consumed_from_the_queues_that_it_is_put_into(name, queues):
    kind = JOB_TYPES[name]
    assert kind.queues == queues
    arguments = FetchArguments(url="https://example.com/") if name == "fetch" else None
    assert kind.queue_of(arguments, 64) in QueueOrder.parse(queues, 64).names


def test_arguments_are_a_list_in_declared_order_whatever_order_they_are_given_in():
    given = ParseArguments(
        fetched_at="g",
        is_truncated=True,
        body="e",
        content_type="d",
        status=3,
        final_url="b",
        url="a",
    )
    assert given.to_list() == ["a", "b", 3, "d", "e", True, "g", None, None]


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("warc", {"source": ""}, "a path or URL"),
        ("warc", {"source": "ftp://example.com/a.warc.gz"}, "ftp:// is not known"),
        ("warc", {"source": "s3://bucket"}, "a bucket and a key"),
        ("warc", {"source": "s3://b/../x"}, "name of a bucket"),
        ("warc", {"source": "http://user:pw@example.com/"}, "credentials"),
        ("warc", {"source": "a.warc", "offset": -1}, "greater than or equal to 0"),
        ("export", {"source": "a.warc", "destination": "https://example.com/"}, "HTTP URL"),
        ("export", {"source": "a.warc", "destination": "s3://bucket/a/../b"}, "no part of a key"),
    ],
)
def test_places_that_are_none_are_refused(name, arguments, says):
    with pytest.raises(ValidationError, match=says):
        JOB_TYPES[name].arguments.model_validate(arguments)


@pytest.mark.parametrize("name", JOB_TYPES)
def test_a_model_takes_nothing_that_it_does_not_know(name):
    with pytest.raises(ValidationError, match="extra"):
        JOB_TYPES[name].arguments.model_validate({"unknown": 1})
