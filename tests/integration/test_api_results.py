"""What crawls have found, over HTTP and on the command line."""

import asyncio
import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from devservers import BrokerServer
from devservers.api import ApiServer
from manyhands.api.keys import new_key
from manyhands.shared.crawl.page_fields import FIELDS
from manyhands.worker.records import PageRecord
from manyhands.worker.sinks.files.jsonl import JsonlSink
from tests.support.api_command import refusal
from tests.support.cli_command import environment, run_cli
from tests.support.read_back import links_of
from tests.support.sink_records import full_page, page

SEEDS = {"contact": "me@example.org", "more_seeds": True}
SECRET, ENTRY = new_key("reader", "read+ingest")
INGEST, INGEST_ENTRY = new_key("writer", "ingest")
FAILED = page(900, id="900.failed", crawl=1, kind="failed", status=404, reason="http 404")


def write(file: Path, records: list[PageRecord]) -> None:
    async def run() -> None:
        sink = JsonlSink(f"jsonl:{file}")
        await sink.open()
        await sink.write(records)
        await sink.close()

    asyncio.run(run())


@pytest.fixture(scope="module")
def records() -> list[PageRecord]:
    return [full_page(number) for number in range(3)] + [page(number) for number in range(3, 25)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("results")


@pytest.fixture(scope="module")
def api(
    broker_process: BrokerServer, place: Path, records: list[PageRecord]
) -> Iterator[ApiServer]:
    """Its crawl 7 has all records but one, and crawl 1 that one."""
    write(place / "pages.ndjson", [*records, FAILED])
    settings = {
        "CRAWL_STATE": str(place / "state"),
        "RESULTS": f"warc:{place}/archive,jsonl:{place}/pages.ndjson",
        "API_KEYS": f"{ENTRY},{INGEST_ENTRY}",
    }
    with ApiServer(broker_process, settings=settings) as api:
        with client(api) as http:
            for _ in range(7):
                http.post("/crawls", json=SEEDS).raise_for_status()
        yield api
        assert "Traceback" not in api.log_text, api.log_text


def client(api: ApiServer, secret: str = SECRET) -> httpx.Client:
    headers = {"X-API-Key": secret}
    return httpx.Client(base_url=api.url, headers=headers, trust_env=False, timeout=60)


@pytest.fixture
def http(api: ApiServer) -> Iterator[httpx.Client]:
    with client(api) as http:
        yield http


def lines(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.text.splitlines()]


def test_all_pages_of_a_crawl_come_as_they_were_written(http, records):
    found = lines(http.get("/crawls/7/pages"))
    assert {row["id"] for row in found} == {record.id for record in records}
    assert list(found[0]) == [field.name for field in FIELDS]
    assert "link" not in http.get("/crawls/7/pages").headers


def test_pages_of_a_listing_hold_each_once_and_a_stream_goes_on_where_it_says(http, records):
    found, path = [], "/crawls/7/pages?limit=7&fields=id"
    while path:
        answer = http.get(path)
        rows = lines(answer)
        assert len(rows) <= 7
        found += [row["id"] for row in rows]
        path = answer.links.get("next", {}).get("url")
    assert sorted(found) == sorted(record.id for record in records)
    cursor = http.get("/crawls/7/pages").headers["next-cursor"]
    for behind in (cursor, answer.headers["next-cursor"]):
        assert lines(http.get("/crawls/7/pages", params={"cursor": behind})) == []


def test_what_is_written_later_comes_behind_the_cursor(http, place, records):
    cursor = http.get("/crawls/2/pages").headers["next-cursor"]
    write(place / "pages.ndjson", [page(1000, id="later", crawl=2)])
    [row] = lines(http.get("/crawls/2/pages", params={"cursor": cursor, "fields": "id"}))
    assert row == {"id": "later"}


def test_links_are_rows_of_their_own(http, records):
    rows = lines(http.get("/crawls/7/links?limit=1000"))
    assert rows == [link for record in records for link in links_of(record)]


@pytest.mark.parametrize(
    "how", [{"params": {"format": "csv"}}, {"headers": {"Accept": "text/csv"}}]
)
def test_the_same_as_csv(http, records, how):
    answer = http.get("/crawls/7/links", **how)
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    wanted = [link for record in records for link in links_of(record)]
    assert rows == [{name: value or "" for name, value in link.items()} for link in wanted]


def test_only_the_first_page_of_csv_has_a_header(http):
    first = http.get("/crawls/7/pages?format=csv&fields=url,links&limit=1")
    assert first.text.splitlines()[0] == "url,links"
    cursor = first.headers["next-cursor"]
    second = http.get(f"/crawls/7/pages?format=csv&fields=url,links&limit=1&cursor={cursor}")
    [[url, links]] = list(csv.reader(io.StringIO(second.text)))
    assert url.startswith("https://site.example/")
    assert json.loads(links)


def test_kinds_and_states_are_chosen(http):
    rows = lines(http.get("/crawls/1/pages?kind=failed,other&fields=reason,kind"))
    assert rows == [{"reason": "http 404", "kind": "failed"}]
    assert lines(http.get("/crawls/1/pages?kind=page")) == []
    assert len(lines(http.get("/crawls/1/pages?status=404&host=SITE.example"))) == 1
    assert lines(http.get("/crawls/1/pages?host=other.example")) == []


def test_what_cannot_be_asked_is_refused_with_the_reason(http):
    cursor = http.get("/crawls/7/pages?limit=1").headers["next-cursor"]
    for path, status, said in (
        ("/crawls/99/pages", 404, "99"),
        ("/crawls/7/pages?cursor=x", 422, "cursor"),
        (f"/crawls/7/links?cursor={cursor}", 422, "does not come from this listing"),
        (f"/crawls/1/pages?cursor={cursor}", 422, "does not come from this listing"),
        ("/crawls/7/pages?fields=nothing", 422, "'nothing' is no field"),
        ("/crawls/7/links?fields=url", 422, "from, to, text, rel"),
        ("/crawls/7/pages?kind=good", 422, "page, other, redirect, failed, refused"),
        ("/crawls/7/pages?limit=0", 422, "limit"),
        ("/crawls/7/pages?format=xml", 422, "format"),
        ("/crawls/7/pages?feilds=url", 422, "unknown query parameter"),
    ):
        answer = http.get(path)
        assert answer.status_code == status, path
        assert said in answer.json()["detail"], answer.text


def test_a_key_needs_the_scope_to_read(api):
    with client(api, INGEST) as http:
        assert http.get("/crawls/7/pages").status_code == 403


def test_without_a_sink_that_can_be_read_it_says_which_setting(broker_process, tmp_path):
    settings = {"CRAWL_STATE": str(tmp_path / "state"), "RESULTS": "warc:archive,kafka://k:9092/x"}
    with ApiServer(broker_process, settings=settings) as api:
        httpx.post(f"{api.url}/crawls", json=SEEDS, trust_env=False, timeout=60)
        answer = httpx.get(f"{api.url}/crawls/1/links", trust_env=False, timeout=60)
    assert answer.status_code == 409
    assert "RESULTS" in answer.json()["detail"]


def test_a_setting_that_is_wrong_ends_the_start():
    assert "RESULTS: " in refusal(RESULTS="jsonl:x?option=1")


def test_the_command_prints_all_of_them(api, tmp_path, records):
    ended = run_cli(tmp_path, "results", "7", "--api", api.url, "--key", SECRET, "--fields", "id")
    assert ended.returncode == 0, ended.stderr
    found = [json.loads(line)["id"] for line in ended.stdout.splitlines()]
    assert sorted(found) == sorted(record.id for record in records)


def test_a_reader_that_has_seen_enough_ends_the_command_without_a_word(api, tmp_path):
    command = [sys.executable, "-m", "manyhands.cli", "results", "7", "--links"]
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [*command, "--api", api.url, "--key", SECRET],
        cwd=tmp_path,
        env=environment({}),
        stdout=writing,
        stderr=subprocess.PIPE,
    )
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (141, b"")
