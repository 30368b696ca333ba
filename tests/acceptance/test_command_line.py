"""`manyhands crawl` and `manyhands up`, from the first start to a resumed end."""

import gzip
import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pyarrow.parquet as parquet
import pytest

from loadtest.web.synthetic_web import SyntheticWeb, WebSpec
from tests.support.cli_command import RunningCli, processes_in, run_cli
from tests.support.waiting import eventually

CONTACT = ("--email", "me@example.org")
FREE_PORTS: dict[str, Any] = {
    "BROKER_BIND": "127.0.0.1:0",
    "BROKER_HTTP_BIND": "127.0.0.1:0",
    "WORKER_HTTP_BIND": "127.0.0.1:0",
}


@pytest.fixture(scope="module")
def web() -> Iterator[SyntheticWeb]:
    with SyntheticWeb(WebSpec(hosts=8, pages=48)) as web:
        yield web


@pytest.fixture(scope="module")
def odd_web() -> Iterator[SyntheticWeb]:
    """Some of its hosts forbid everything."""
    with SyntheticWeb(WebSpec(hosts=200, pages=200, profile="web")) as web:
        yield web


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def records(file: Path) -> list[str]:
    return sorted(json.loads(line)["url"] for line in file.read_bytes().splitlines())


@pytest.mark.timeout(400)
async def test_a_crawl_that_was_interrupted_goes_on_and_fetches_every_page_once(web, tmp_path):
    command = ("crawl", *web.seeds, *CONTACT, "--delay", "0.3", "--max-pages", "1000")
    command += ("--output", "pages.ndjson")
    web.reset()
    with RunningCli(tmp_path, *command, **web.worker_settings) as first:
        await eventually(lambda: web.counts().pages, 120, "no page was fetched")
        assert await first.interrupted() == 130, first.said
        assert "resume with: manyhands crawl --state manyhands-data" in first.said
    assert web.counts().pages < 48

    ended = run_cli(tmp_path, *command, "--json", **web.worker_settings)
    assert ended.returncode == 0, ended.stderr
    assert b"resuming crawl 1" in ended.stderr
    summary = json.loads(ended.stdout)
    assert summary["state"] == "completed"
    assert summary["urls"]["done"] == 48
    assert summary["records"] == str(tmp_path / "pages.ndjson")
    assert records(tmp_path / "pages.ndjson") == sorted(web.perfect_crawl())


@pytest.mark.timeout(200)
def test_files_say_where_to_begin_and_what_to_leave_out_and_the_output_its_format(web, tmp_path):
    web.reset()
    (tmp_path / "seeds.txt.gz").write_bytes(gzip.compress("\n".join(web.seeds).encode() + b"\nno"))
    host = urlsplit(web.seeds[0]).hostname
    (tmp_path / "leave.txt").write_text(f"{host}  # not this one\n")
    ended = run_cli(
        tmp_path,
        *("crawl", "--seed-file", "seeds.txt.gz", "--exclude-file", "leave.txt", *CONTACT),
        *("--max-duration", "2m", "--max-pages", "1000", "--delay", "0", "--max-workers", "20"),
        *("--output", "pages.parquet", "--sink", "jsonl:lines.jsonl"),
        **web.worker_settings,
    )
    said = ended.stderr.decode()
    assert ended.returncode == 0, said
    assert "--max-workers is deprecated: use --stages 'crawl:1x20 parse:1x80'" in said
    assert "lines of the seed file that are no URL: 1" in said
    wanted = {url for url in web.perfect_crawl() if urlsplit(url).hostname != host}
    table = parquet.read_table(tmp_path / "pages.parquet")
    assert sorted(table["url"].to_pylist()) == records(tmp_path / "lines.jsonl") == sorted(wanted)
    assert not (tmp_path / "pages.parquet.parts").exists()


@pytest.mark.timeout(200)
def test_a_site_that_forbids_everything_is_named(odd_web, tmp_path):
    perfect = odd_web.perfect_crawl()
    forbidden = next(seed for seed in odd_web.seeds if perfect[seed].ends == "disallowed")
    ended = run_cli(tmp_path, "crawl", forbidden, *CONTACT, **odd_web.worker_settings)
    assert ended.returncode == 1
    assert b"nothing was fetched: robots.txt forbids all of it" in ended.stderr


@pytest.mark.timeout(200)
def test_what_is_no_page_has_a_record_that_says_why(odd_web, tmp_path):
    perfect = odd_web.perfect_crawl().values()
    page, missing = (
        next(one.url for one in perfect if (one.ends, one.kind) == wanted)
        for wanted in (("done", "page"), ("failed", "missing"))
    )
    command = ("crawl", page, missing, *CONTACT, "--delay", "0.1", "--within", "seeds")
    more = ("--output", "pages.ndjson", "--fields", "title,text,size")
    ended = run_cli(tmp_path, *command, *more, **odd_web.worker_settings)
    assert ended.returncode == 0, ended.stderr
    lines = (tmp_path / "pages.ndjson").read_bytes().splitlines()
    found = {record["url"]: record for record in map(json.loads, lines)}
    assert {url: found[url]["kind"] for url in found} == {page: "page", missing: "failed"}
    assert (found[missing]["status"], found[missing]["reason"]) == (404, "http 404")
    assert found[page]["text"] and found[page]["title"]
    assert (found[page]["links"], found[page]["content_hash"]) == ([], None)


@pytest.mark.timeout(200)
async def test_up_takes_crawls_and_jobs_with_a_password_and_starts_again_what_dies(web, tmp_path):
    settings = FREE_PORTS | web.worker_settings | {"BROKER_PASSWORD": "a@b/c d"}
    bind = f"127.0.0.1:{free_port()}"
    with RunningCli(tmp_path, "up", "--dir", "data", "--api-bind", bind, **settings) as running:
        await running.until("Ctrl-C stops all of it")
        assert f"http://{bind}" in running.said
        request = {
            "contact": "me@example.org",
            "seeds": [web.seeds[7]],
            "scope": {"within": "seeds"},
        }
        async with httpx.AsyncClient(base_url=f"http://{bind}") as api:
            (await api.post("/crawls", json=request)).raise_for_status()
            (await api.post("/jobs/fetch", json={"url": web.seeds[3]})).raise_for_status()
        written = tmp_path / "data" / "pages.ndjson"
        await eventually(lambda: written.exists() and len(records(written)) == 2, 120)
        assert records(written) == sorted([web.seeds[3], web.seeds[7]])
        for service in ("broker", "worker"):
            os.kill(running.started(service), signal.SIGKILL)
            await running.until(f"the {service} runs again")
            assert f"the {service} ended with -9" in running.said
        await eventually(
            lambda: httpx.post(f"http://{bind}/jobs/fetch", json={"url": web.seeds[5]}).is_success,
            60,
            "the broker is still away for the API",
        )
        await eventually(lambda: web.seeds[5] in records(written), 60)
        again = run_cli(tmp_path, "up", "--dir", "other", "--api-bind", bind, **FREE_PORTS)
        assert again.returncode == 1
        [line] = again.stderr.decode().splitlines()
        assert line.startswith(f"manyhands: API_BIND={bind}: ")
        assert line.endswith("set another one, or is `manyhands up` running already?")
        assert await running.interrupted() == 130
    assert processes_in(tmp_path) == []
