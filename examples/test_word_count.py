"""How handlers are tested: without a server, in plain or async tests."""

from pathlib import Path

import pytest

from examples import word_count
from manyhands.testing import Dead, Done, Drop, Failed, Retry, run_job, run_job_sync


def test_a_file_becomes_one_job_for_each_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(word_count, "LINES_PER_PART", 2)
    text = tmp_path / "text"
    text.write_text("one\ntwo\nthree\n")

    result = run_job_sync("split_text", str(text))

    assert isinstance(result.outcome, Done)
    assert [child.args for child in result.children] == [["one\ntwo", 4], ["three", 4]]
    assert {child.queue for child in result.children} == {word_count.QUEUE}


def test_a_repeat_makes_the_same_jobs(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("one two")

    first, again = (run_job_sync("split_text", str(text), deliveries=n) for n in (1, 2))

    assert [child.jid for child in first.children] == [child.jid for child in again.children]


def test_a_file_that_is_not_there_yet_is_tried_again(tmp_path: Path) -> None:
    result = run_job_sync("split_text", str(tmp_path / "missing"))

    assert isinstance(result.outcome, Retry)
    assert result.outcome.after_s == 30
    assert result.queued_again is not None


def test_what_is_no_text_is_not_tried_again(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(b"\xff\xfe\xfd")
    (tmp_path / "empty").touch()

    assert isinstance(run_job_sync("split_text", str(tmp_path / "image")).outcome, Dead)
    assert isinstance(run_job_sync("split_text", str(tmp_path / "empty")).outcome, Drop)


async def test_words_are_counted() -> None:
    result = await run_job("count_words", "to be or not to be that is", 3, version=2)

    assert isinstance(result.outcome, Done)
    (record,) = result.records
    assert (record["words"], record["often"]) == (2, [("not", 1), ("that", 1)])


def test_a_job_of_version_1_counts_every_word() -> None:
    (record,) = run_job_sync("count_words", "to be or not to be").records

    assert record["words"] == 6


def test_arguments_that_do_not_fit_are_refused() -> None:
    result = run_job_sync("count_words", "text", "many")

    assert isinstance(result.outcome, Failed)
    assert "shortest" in result.outcome.message
