"""Files that a crawl names: seen to before it is started."""

from pathlib import Path

import pytest

from manyhands.api.crawls import files
from manyhands.api.crawls.files import read_files, read_scope
from manyhands.api.problems import Problem
from manyhands.shared.crawl.spec import CrawlSpec
from manyhands.shared.crawl.store.texts import unpack
from manyhands.shared.urls import parse_url


def spec(**members: object) -> CrawlSpec:
    return CrawlSpec.model_validate({"contact": "me@example.org"} | members)


def refusal(directory: Path | None, **members: object) -> Problem:
    with pytest.raises(Problem) as caught:
        read_files(directory, spec(**members))
    assert caught.value.status == 422
    return caught.value


def test_without_files_there_is_nothing_to_look_for(tmp_path):
    assert read_files(None, spec()) is None
    assert read_files(tmp_path, spec()) is None


def test_a_file_that_is_there_is_in_order(tmp_path):
    (tmp_path / "seeds.txt").write_text("https://example.org/\n")
    (tmp_path / "out.txt").write_text("# ours\nexample.com\n")
    packed = read_files(tmp_path, spec(seed_file="seeds.txt", exclusions_file="out.txt"))
    assert packed is not None
    assert unpack(*packed) == "# ours\nexample.com\n"
    scope = read_scope(tmp_path, spec(exclusions_file="out.txt", scope={"within": "anywhere"}))
    assert not scope.judge(parse_url("https://a.example.com/"), 0).is_in
    assert scope.judge(parse_url("https://example.org/"), 0).is_in


@pytest.mark.parametrize("field", ["seed_file", "exclusions_file"])
def test_a_file_that_is_not_there_is_named(tmp_path, field):
    (tmp_path / "directory").mkdir()
    assert "CRAWL_FILES is not set" in refusal(None, **{field: "a.txt"}).detail
    for name in ("a.txt", "directory"):
        problem = refusal(tmp_path, **{field: name})
        assert name in problem.detail
        assert problem.more["field"] == field
        assert str(tmp_path) not in problem.detail


@pytest.mark.parametrize("field", ["seed_file", "exclusions_file"])
def test_a_link_that_leads_out_of_the_directory_is_refused(tmp_path, field):
    directory = tmp_path / "files"
    directory.mkdir()
    (tmp_path / "elsewhere.txt").write_text("https://example.org/\n")
    (directory / "a.txt").symlink_to(tmp_path / "elsewhere.txt")
    problem = refusal(directory, **{field: "a.txt"})
    assert "leads out of it" in problem.detail
    assert "elsewhere" not in problem.detail


def test_an_exclusions_file_is_not_repeated_by_its_errors(tmp_path):
    (tmp_path / "out.txt").write_text("root:x:0:0:root:/root:/bin/bash\nhttps://s3cret\n")
    assert "root" not in refusal(tmp_path, exclusions_file="out.txt").detail
    (tmp_path / "out.txt").write_text("my s3cret password\n")
    assert "s3cret" not in refusal(tmp_path, exclusions_file="out.txt").detail


def test_an_exclusion_that_cannot_be_read_is_told_with_its_line(tmp_path):
    (tmp_path / "out.txt").write_text("example.com\nnot a name\n")
    assert "line 2" in refusal(tmp_path, exclusions_file="out.txt").detail
    (tmp_path / "out.txt").write_bytes(b"\xff\xfe\n")
    assert "out.txt" in refusal(tmp_path, exclusions_file="out.txt").detail


def test_exclusions_that_are_too_long_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_EXCLUSIONS_BYTES", 12)
    (tmp_path / "out.txt").write_text("example.com\n")
    assert read_files(tmp_path, spec(exclusions_file="out.txt")) is not None
    (tmp_path / "out.txt").write_text("example.com\n\n")
    assert "more than 12 bytes" in refusal(tmp_path, exclusions_file="out.txt").detail


def test_a_scope_with_a_name_that_is_none_is_refused(tmp_path):
    problem = refusal(tmp_path, scope={"hosts": ["not a name"]})
    assert problem.more["field"] == "scope"
    assert "hosts" in problem.detail
