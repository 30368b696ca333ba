import gzip
from pathlib import Path

import orjson
import pytest
import zstandard

from manyhands.cli.seeds import UsageError
from manyhands.cli.warc import job_lines, listed_sources, sources_of

PATHS = ["crawl-data/CC-MAIN-1/a.warc.gz", "crawl-data/CC-MAIN-1/b.warc.gz"]
LIST = "\n".join(PATHS).encode() + b"\n"


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
def test_a_list_names_one_file_in_each_line(pack):
    found = listed_sources("warc.paths", pack(LIST), "https://data.example.org/")
    assert found == [f"https://data.example.org/{path}" for path in PATHS]


def test_only_relative_paths_get_the_prefix():
    lines = b"a.warc.gz\n\n# a note\n  /srv/b.warc.gz \nhttp://x.example/c.warc\ns3://buc/d.warc\n"
    assert listed_sources("x.txt", lines, "s3://bucket/") == [
        "s3://bucket/a.warc.gz",
        "/srv/b.warc.gz",
        "http://x.example/c.warc",
        "s3://buc/d.warc",
    ]
    assert listed_sources("x.txt", b"a.warc.gz", "") == ["a.warc.gz"]


def test_a_bad_line_is_named():
    with pytest.raises(UsageError, match=r"x\.txt line 2: ftp:// is not known"):
        listed_sources("x.txt", b"a.warc\nftp://b.example/c.warc", "")


def test_a_list_that_is_cut_off_is_told():
    with pytest.raises(UsageError, match="cut off"):
        listed_sources("x.txt", gzip.compress(LIST * 100)[:-9], "")


async def test_a_file_is_named_by_its_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.warc.gz").write_bytes(b"")
    assert await sources_of("a.warc.gz", "s3://bucket/") == [str(tmp_path / "a.warc.gz")]
    for url in ("https://x.example/a.warc.gz?b=.txt", "s3://bucket/a.warc.wet.gz"):
        assert await sources_of(url, "") == [url]


async def test_a_list_is_read_from_a_file(tmp_path: Path):
    path = tmp_path / "wet.paths.gz"
    path.write_bytes(gzip.compress(LIST))
    assert await sources_of(str(path), "s3://bucket/") == [f"s3://bucket/{path}" for path in PATHS]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("missing.warc.gz", "no such file"),
        ("missing.paths.gz", "No such file"),
        ("s3://bucket/warc.paths.gz", "download it first"),
        ("s3://bucket", "a bucket and a key"),
        ("gopher://x/a.warc", "is not known"),
    ],
)
async def test_what_is_no_file_is_told(name, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=says):
        await sources_of(name, "")


async def test_each_source_is_a_line_and_told_when_it_is_sent():
    sources = [f"s3://bucket/{number}.warc.gz" for number in range(1200)]
    for destination, jobtype in ((None, "warc"), ("s3://bucket/tables", "export")):
        sent: list[int] = []
        lines = b"".join([part async for part in job_lines(sources, destination, sent.append)])
        jobs = [orjson.loads(line) for line in lines.splitlines()]
        assert {job["jobtype"] for job in jobs} == {jobtype}
        assert [job["args"]["source"] for job in jobs] == sources
        assert {job["args"].get("destination") for job in jobs} == {destination}
        assert sum(sent) == 1200
