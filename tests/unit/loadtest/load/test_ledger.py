"""The books of a load test: what is written is what is read."""

import pytest

from loadtest.load.ledger import (
    ANSWERS_SUFFIX,
    DONE_SUFFIX,
    RECORD,
    Answer,
    Done,
    DoneTail,
    Outcome,
    answers_of,
    clear,
    read_answers,
    write_answers,
)


def test_jobs_of_a_request_that_were_answered_alike_are_one_answer():
    outcomes = [Outcome.QUEUED, Outcome.QUEUED, Outcome.UNKNOWN, Outcome.QUEUED]
    assert list(answers_of("list", 10, outcomes, 1, 2)) == [
        Answer("list", Outcome.QUEUED, 10, 2, 1, 2),
        Answer("list", Outcome.UNKNOWN, 12, 1, 1, 2),
        Answer("list", Outcome.QUEUED, 13, 1, 1, 2),
    ]


def test_answers_of_several_processes_are_read_as_they_were_written(tmp_path):
    answers = [
        Answer("single", Outcome.BROKEN, 0, 1, 5, 9),
        Answer("stream", Outcome.REFUSED, 1, 1000, 6, 9),
    ]
    for number, answer in enumerate(answers):
        with (tmp_path / f"{number}{ANSWERS_SUFFIX}").open("a") as file:
            write_answers(file, [answer])
    assert read_answers(tmp_path) == answers


def test_an_answer_knows_the_numbers_of_its_jobs():
    assert list(Answer("list", Outcome.QUEUED, 7, 3, 0, 0).numbers) == [7, 8, 9]


def test_done_jobs_are_read_once_and_a_half_written_record_later(tmp_path):
    tail = DoneTail(tmp_path)
    assert tail.read() == []
    second = RECORD.pack(2, 20, 200)
    path = tmp_path / f"a{DONE_SUFFIX}"
    path.write_bytes(RECORD.pack(1, 10, 100) + second[:5])
    assert tail.read() == [Done(1, 10, 100)]
    (tmp_path / f"b{DONE_SUFFIX}").write_bytes(RECORD.pack(3, 30, 300))
    with path.open("ab") as file:
        file.write(second[5:])
    assert tail.read() == [Done(2, 20, 200), Done(3, 30, 300)]
    assert tail.read() == []


@pytest.mark.parametrize("is_there", [True, False])
def test_clearing_removes_an_earlier_ledger_and_nothing_else(tmp_path, is_there):
    directory = tmp_path / "ledger"
    if is_there:
        directory.mkdir()
        for name in (f"x{ANSWERS_SUFFIX}", f"x{DONE_SUFFIX}", "notes.txt"):
            (directory / name).touch()
    clear(directory)
    assert [path.name for path in directory.iterdir()] == (["notes.txt"] if is_there else [])
