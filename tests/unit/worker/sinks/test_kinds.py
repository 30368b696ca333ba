"""From SINKS to sinks: what a URL names, and what is said when it names nothing."""

from importlib.metadata import EntryPoint

import pytest

from manyhands.shared.errors import ConfigError
from manyhands.worker.records import Capture, PageRecord, PlainRecord
from manyhands.worker.sinks import kinds
from manyhands.worker.sinks.kinds import CAPTURED, EMITTED, make_sinks
from tests.unit.worker.sinks.made_up import ScriptedSink


def made_up_sink(url: str) -> ScriptedSink:
    return ScriptedSink(url, frozenset({PlainRecord}))


@pytest.fixture
async def others(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint("mine", f"{__name__}:made_up_sink", kinds.ENTRY_POINTS),
        EntryPoint("broken", f"{__name__}:nothing", kinds.ENTRY_POINTS),
    ]
    monkeypatch.setattr(kinds, "entry_points", lambda **_: points)


@pytest.mark.parametrize(
    ("url", "wants"),
    [
        ("jsonl:pages.ndjson", {PageRecord, PlainRecord}),
        ("jsonl+s3://bucket/pages", {PageRecord, PlainRecord}),
        ("warc:archive", {Capture}),
        ("warc+s3://bucket/archive", {Capture}),
        ("parquet:tables", {PageRecord}),
        ("parquet+s3://bucket/tables", {PageRecord}),
        ("postgres://user:secret@db.example:5432/crawls", {PageRecord, PlainRecord}),
        ("elasticsearch://es.example:9200/crawls", {PageRecord, PlainRecord}),
        ("elasticsearch+https://user:secret@es.example:9200/crawls", {PageRecord, PlainRecord}),
        ("kafka://k1.example:9092,k2.example:9092/crawls", {PageRecord, PlainRecord}),
    ],
)
async def test_every_kind_is_made_from_its_url(url, wants):
    (sink,) = make_sinks([url], EMITTED | CAPTURED)
    assert set(sink.kinds) == wants
    assert "secret" not in sink.name


async def test_only_those_are_made_for_which_there_will_be_records():
    urls = ["jsonl:pages.ndjson", "warc:archive"]
    assert [sink.kinds for sink in make_sinks(urls, CAPTURED)] == [{Capture}]
    assert [sink.kinds for sink in make_sinks(urls, EMITTED)] == [{PageRecord, PlainRecord}]


async def test_a_package_of_the_users_brings_a_kind_of_its_own(others):
    (sink,) = make_sinks(["mine+tcp://host"], EMITTED)
    assert sink.name == "mine+tcp://host"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("ftp://host/x", "unknown kind of sink 'ftp' .known: jsonl, .*kafka, mine, broken"),
        ("broken:x", "broken .*has no attribute 'nothing'"),
    ],
)
async def test_a_url_that_names_no_sink_is_refused(others, url, says):
    with pytest.raises(ConfigError, match=says):
        make_sinks([url], EMITTED)


async def test_one_place_twice_is_a_mistake():
    with pytest.raises(ConfigError, match=r"SINKS names .*archive twice"):
        make_sinks(["warc:archive", "warc:archive"], CAPTURED)


async def test_a_package_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(kinds.OWN, "jsonl", ("manyhands.worker.sinks.missing", "X", "worker"))
    with pytest.raises(ConfigError, match=r"jsonl needs .*missing.*pip install '\.\[worker\]'"):
        make_sinks(["jsonl:x"], EMITTED)
