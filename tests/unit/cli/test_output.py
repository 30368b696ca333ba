"""The format of records by the name of their file, and the files that are joined to one."""

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manyhands.cli.output import Output, absolute_sink, check_format
from manyhands.cli.seeds import UsageError

LINES = Path("/data/crawl-1.ndjson")


@pytest.mark.parametrize(
    ("name", "sinks"),
    [
        ("/x/pages.jsonl", ["jsonl:/x/pages.jsonl"]),
        ("/x/pages.ndjson.zst", ["jsonl:/x/pages.ndjson.zst"]),
        ("/x/pages.parquet", ["parquet:/x/pages.parquet.parts"]),
        ("/x/pages/", ["markdown:/x/pages", f"jsonl:{LINES}"]),
        ("/x/pages.warc.gz", ["warc:/x/pages.warc.gz.parts", f"jsonl:{LINES}"]),
    ],
)
def test_the_ending_says_the_format(name: str, sinks: list[str]) -> None:
    check_format(name)
    assert Output(name).sinks(LINES) == sinks


@pytest.mark.parametrize("name", ["pages", "pages.csv", "pages.warc", "jsonl"])
def test_another_ending_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=r"must be one of \.jsonl, "):
        check_format(name)


def test_lines_are_one_file_already(tmp_path: Path) -> None:
    file = tmp_path / "pages.ndjson"
    assert Output(str(file)).join() == [file]


def test_archives_are_joined_in_their_order(tmp_path: Path) -> None:
    output = Output(str(tmp_path / "pages.warc.gz"))
    output.parts.mkdir()
    for name in ("2", "1"):
        (output.parts / f"manyhands-{name}.warc.gz").write_bytes(gzip.compress(name.encode()))
    assert output.join() == [output.file]
    assert gzip.decompress(output.file.read_bytes()) == b"12"
    assert not output.parts.exists()
    assert output.join() == [output.file]


def test_tables_are_joined_without_what_their_directories_say(tmp_path: Path) -> None:
    output = Output(str(tmp_path / "pages.parquet"))
    for number in (1, 2):
        for kind in ("pages", "edges"):
            part = output.parts / kind / "crawl=1" / f"date=2030-01-0{number}" / "x.parquet"
            part.parent.mkdir(parents=True)
            pq.write_table(pa.table({kind: [number]}), part)
    pages, edges = output.join()
    assert edges == tmp_path / "pages.edges.parquet"
    assert pq.read_table(pages).to_pydict() == {"pages": [1, 2]}
    assert pq.read_table(edges).to_pydict() == {"edges": [1, 2]}


def test_a_crawl_without_links_has_no_table_of_them(tmp_path: Path) -> None:
    output = Output(str(tmp_path / "pages.parquet"))
    (output.parts / "pages").mkdir(parents=True)
    pq.write_table(pa.table({"url": ["x"]}), output.parts / "pages" / "x.parquet")
    assert output.join() == [output.file]


def test_a_sink_of_files_is_found_from_any_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute_sink("warc:archive") == f"warc:{tmp_path}/archive"
    for url in ("warc:/archive", "postgres://me@db/crawls", "warc+s3://bucket/x", "kafka://a,b/c"):
        assert absolute_sink(url) == url
