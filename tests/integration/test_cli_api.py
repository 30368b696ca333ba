"""`manyhands submit` and `manyhands status` against a running API."""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import zstandard

from devservers import ApiServer, BrokerServer
from tests.support.cli_command import environment, run_cli
from tests.support.waiting import eventually

URLS = "".join(f"https://{number}.example/\n" for number in range(1500))
CRAWL = {"contact": "me@example.org", "more_seeds": True}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    state = tmp_path_factory.mktemp("crawls")
    with (
        BrokerServer() as broker,
        ApiServer(broker, settings={"CRAWL_STATE": str(state)}) as server,
    ):
        yield server


def jobs_waiting(api: ApiServer) -> int:
    return sum(queue_sizes(api).values())


def queue_sizes(api: ApiServer) -> dict[str, int]:
    return {queue["name"]: queue["size"] for queue in httpx.get(f"{api.url}/queues").json()}


def start_crawl(api: ApiServer) -> int:
    number: int = httpx.post(f"{api.url}/crawls", json=CRAWL).json()["id"]
    return number


def status(api: ApiServer, directory: Path, *arguments: str) -> Any:
    ended = run_cli(directory, "status", "--api", api.url, "--json", *arguments)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_a_reader_that_has_seen_enough_ends_it_without_a_word(api, tmp_path):
    for _ in range(20):
        start_crawl(api)
    command = [sys.executable, "-m", "manyhands.cli", "status", "--json", "--api", api.url]
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        command, cwd=tmp_path, env=environment({}), stdout=writing, stderr=subprocess.PIPE
    )
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (141, b"")


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("name", "pack"),
    [("urls.txt", bytes), ("urls.txt.gz", gzip.compress), ("urls.zst", zstandard.compress)],
)
async def test_a_file_of_urls_becomes_jobs_packed_or_not(api, tmp_path, name, pack):
    (tmp_path / name).write_bytes(pack(URLS.encode()))
    before = jobs_waiting(api)
    ended = run_cli(tmp_path, "submit", name, "--api", api.url)
    assert ended.returncode == 0, ended.stderr
    assert b"accepted 1,500, refused 0" in ended.stderr
    # The API asks the broker once a second.
    await eventually(lambda: jobs_waiting(api) == before + 1500)


@pytest.mark.timeout(120)
def test_lines_of_arguments_are_wrapped_and_bad_ones_named(api, tmp_path):
    lines = b'{"a": 1, "b": 2}\n\n{"a": 1}\n{"a": 3, "b": 4}\n'
    ended = run_cli(tmp_path, "submit", "-", "--type", "add", "--api", api.url, stdin=lines)
    assert ended.returncode == 1
    said = ended.stderr.decode()
    assert "line 3: args.b: Field required" in said
    assert "accepted 2, refused 1" in said


@pytest.mark.timeout(120)
async def test_a_list_of_warc_files_becomes_jobs(api, tmp_path):
    (tmp_path / "warc.paths.gz").write_bytes(gzip.compress(b"a/1.warc.gz\na/2.warc.gz\n"))
    for more in ((), ("--export", "s3://bucket/tables")):
        ended = run_cli(
            tmp_path, "warc", "warc.paths.gz", "--prefix", "s3://bucket/", "--api", api.url, *more
        )
        assert ended.returncode == 0, ended.stderr
        assert b"accepted 2, refused 0" in ended.stderr
    queued = {"warc": 2, "export": 2}
    await eventually(lambda: queued.items() <= queue_sizes(api).items())


def test_a_warc_file_that_is_not_there_is_told(api, tmp_path):
    ended = run_cli(tmp_path, "warc", "missing.warc.gz", "--api", api.url)
    assert ended.returncode == 2
    assert b"manyhands: missing.warc.gz: no such file" in ended.stderr


@pytest.mark.timeout(120)
def test_seeds_are_added_to_a_crawl_and_its_status_tells_of_them(api, tmp_path):
    number = start_crawl(api)
    lines = b"https://a.example/\nnonsense\n"
    ended = run_cli(tmp_path, "submit", "-", "--crawl", str(number), "--api", api.url, stdin=lines)
    assert ended.returncode == 1
    assert b"accepted 1, refused 1" in ended.stderr
    assert b"line 2: " in ended.stderr
    told = status(api, tmp_path, str(number))
    assert told["id"] == number
    assert told["has_all_seeds"]
    assert told["errors"] == []


@pytest.mark.timeout(120)
def test_status_shows_queues_and_crawls_to_people(api, tmp_path):
    number = start_crawl(api)
    httpx.post(f"{api.url}/jobs/add", json={"a": 1, "b": 2}).raise_for_status()
    told = status(api, tmp_path)
    assert "default" in [queue["name"] for queue in told["queues"]]
    assert number in [crawl["id"] for crawl in told["crawls"]]
    shown = run_cli(tmp_path, "status", "--api", api.url)
    assert shown.stderr == b""
    assert b"default" in shown.stdout
    assert b"retries 0 " in shown.stdout
    assert b"more seeds are awaited" in shown.stdout


@pytest.mark.timeout(120)
def test_what_the_api_refuses_is_told_in_its_own_words(api, tmp_path):
    for words in (("status", "999"), ("submit", "-", "--crawl", "999")):
        ended = run_cli(tmp_path, *words, "--api", api.url, stdin=b"https://a.example/\n")
        assert ended.returncode == 1
        assert b"manyhands: the API answered 404: there is no crawl 999" in ended.stderr


@pytest.mark.timeout(120)
def test_an_api_that_is_not_there_is_told_with_what_to_do(tmp_path):
    ended = run_cli(tmp_path, "status", "--api", "http://127.0.0.1:9")
    assert ended.returncode == 1
    assert b"no API at http://127.0.0.1:9" in ended.stderr
    assert b"manyhands up" in ended.stderr
