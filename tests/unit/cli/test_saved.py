from pathlib import Path

import pytest

from manyhands.cli.saved import FILE, SavedCrawl, keep, read_kept
from manyhands.cli.seeds import UsageError

REQUEST = {"contact": "me@example.org", "seeds": ["https://example.org/"]}


def test_what_was_asked_for_is_found_again(tmp_path):
    kept = SavedCrawl.new(REQUEST, str(tmp_path / "pages.ndjson"))
    keep(tmp_path, kept)
    assert read_kept(tmp_path) == kept
    assert kept.is_for(dict(REQUEST))
    assert not kept.is_for(REQUEST | {"contact": "you@example.org"})


def test_two_crawls_of_the_same_pages_have_different_keys():
    assert SavedCrawl.new(REQUEST, None).key != SavedCrawl.new(REQUEST, None).key


def test_a_directory_without_a_crawl_has_none(tmp_path):
    assert read_kept(tmp_path) is None
    assert read_kept(tmp_path / "not-there") is None


@pytest.mark.parametrize("text", ["", "[]", '{"key": "x"}'])
def test_a_file_that_is_none_of_ours_is_told(tmp_path, text):
    (tmp_path / FILE).write_text(text)
    with pytest.raises(UsageError, match=r"crawl\.json cannot be read"):
        read_kept(tmp_path)


def test_records_are_named_after_the_crawl_unless_told_otherwise(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert SavedCrawl.new(REQUEST, None).records(Path("/x"), 3) == "/x/crawl-3.ndjson"
    named = SavedCrawl.new(REQUEST, "pages.ndjson")
    assert named.records(Path("/x"), 3) == str(tmp_path / "pages.ndjson")
    folder = SavedCrawl.new(REQUEST, "pages/")
    assert folder.records(Path("/x"), 3) == f"{tmp_path}/pages/"
