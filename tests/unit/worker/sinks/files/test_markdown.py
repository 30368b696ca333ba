"""Pages as files of Markdown: one for each, whatever their URLs are called."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from manyhands.shared.errors import ConfigError
from manyhands.worker.records import PageRecord
from manyhands.worker.sinks.files.markdown import DRAFTS, DRAFTS_KEPT_S, MarkdownSink
from manyhands.worker.sinks.files.markdown_pages import file_name, file_text
from tests.support.sink_records import full_page, hostile_pages, page

HOSTILE_URLS = [
    "https://site.example/../../etc/passwd",
    "https://site.example/%2e%2e/%2e%2e/%2fetc%2fpasswd%00.md",
    "https://site.example/.hidden",
    "https://site.example/" + "a/" * 4000,
    "https://site.example/" + "%F0%9F%95%B7" * 400,
    "https://site.example/con",
    "https://site.example/\ud83d",
    "https://[2001:db8::1]:8443/x",
    "https://user:secret@site.example/x",
    "https://" + "a" * 63 + "." + "b" * 63 + "." + "c" * 63 + "." + "d" * 60 + "/",
]


def written(directory: Path, *batches: list[PageRecord]) -> list[Path]:
    """By one worker; the files that there are then."""

    async def run() -> None:
        sink = MarkdownSink(f"markdown:{directory}")
        await sink.open()
        for batch in batches:
            await sink.write(batch)
        await sink.close()

    asyncio.run(run())
    return sorted(path for path in directory.rglob("*") if path.is_file())


def read(path: Path) -> tuple[dict[str, Any], str]:
    """The front matter, and the text behind it."""
    _, front, text = path.read_text(encoding="utf-8").split("---\n", 2)
    found = yaml.safe_load(front)
    assert isinstance(found, dict)
    return found, text.strip()


def test_a_page_is_a_file_that_begins_with_its_fields(tmp_path: Path) -> None:
    [file] = written(tmp_path / "out", [full_page(1)])
    front, text = read(file)
    assert text == "# Two\n\nparagraphs"
    assert front["url"] == "https://site.example/1"
    assert front["title"] == "Page 1 – ä"
    assert front["id"] == full_page(1).id
    assert file.parent.name == "site.example"
    assert file.name.startswith("1-")


def test_without_markdown_its_text_is_there(tmp_path: Path) -> None:
    [file] = written(tmp_path, [page(1, text="Only this")])
    assert read(file)[1] == "Only this"


def test_what_is_no_page_has_no_file(tmp_path: Path) -> None:
    assert written(tmp_path, [page(1, kind="failed"), page(2, kind="other")]) == []


def test_a_record_that_comes_again_is_no_second_file(tmp_path: Path) -> None:
    first = written(tmp_path, [page(1), page(2)], [page(1)])
    times = [file.stat().st_mtime_ns for file in first]
    assert written(tmp_path, [page(2), page(1)]) == first
    assert [file.stat().st_mtime_ns for file in first] == times
    assert len(first) == 2


@pytest.mark.parametrize("url", HOSTILE_URLS)
def test_whatever_a_url_says_its_file_is_in_the_directory(tmp_path: Path, url: str) -> None:
    [file] = written(tmp_path / "out", [page(1, url=url)])
    assert file.resolve().parent.parent == (tmp_path / "out").resolve()
    assert len(file.name) <= 255
    assert not file.name.startswith(".")
    assert "secret" not in str(file.relative_to(tmp_path))


def test_urls_that_differ_in_case_alone_are_two_files_on_any_disk(tmp_path: Path) -> None:
    pages = [page(1, url="https://site.example/A"), page(2, url="https://site.example/a")]
    names = {"/".join(file_name(one)).lower() for one in pages}
    assert len(names) == 2
    assert len(written(tmp_path, pages)) == 2


@pytest.mark.parametrize("record", hostile_pages(), ids=lambda record: record.id)
def test_no_title_ends_the_front_matter(tmp_path: Path, record: PageRecord) -> None:
    [file] = written(tmp_path, [record])
    assert read(file)[0]["id"] == record.id


def test_a_title_like_an_end_stays_a_title() -> None:
    text = file_text(page(1, title="---\nurl: https://evil.example/\n---", text="x")).decode()
    front = text.split("\n---\n")[0].removeprefix("---\n")
    assert yaml.safe_load(front)["url"] == "https://site.example/1"


def test_a_file_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: int) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="full"):
        written(tmp_path, [page(1)])
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_drafts_of_the_killed_are_removed_and_those_of_others_stay(tmp_path: Path) -> None:
    old, new = tmp_path / DRAFTS / "old", tmp_path / DRAFTS / "new"
    old.parent.mkdir()
    for draft in (old, new):
        draft.write_bytes(b"half")
    long_ago = new.stat().st_mtime - DRAFTS_KEPT_S - 1
    os.utime(old, (long_ago, long_ago))
    assert written(tmp_path, []) == [new]


@pytest.mark.parametrize("url", ["markdown:", "markdown+s3://bucket/x", "markdown:x?y=z"])
def test_a_place_that_is_no_directory_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="SINKS: "):
        MarkdownSink(url)
