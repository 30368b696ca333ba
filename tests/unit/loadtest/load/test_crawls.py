"""What a load test of crawls says: seeds by their state, and each fetched once."""

from typing import Any

from loadtest.load.answers import told_of_crawl
from loadtest.load.crawls import (
    NO_CRAWL_ID,
    CrawlAnswer,
    judge_crawls,
    read_crawl_answers,
    write_crawl_answer,
)
from loadtest.load.ledger import Outcome
from tests.support.visits import HOST, visit

SEEDS = tuple(f"http://{HOST}/{number}" for number in range(4))
TAKEN = CrawlAnswer(Outcome.QUEUED, "1", SEEDS)


def view(state: str = "completed", **urls: int) -> dict[str, Any]:
    return {"state": state, "urls": urls}


def test_accepted_is_done_and_waiting_and_dead():
    seen = [visit("/0", 1), visit("/1", 2)]
    verdict = judge_crawls([TAKEN], {"1": view("running", done=2, queued=1, failed=1)}, seen)
    assert (verdict.crawls, verdict.accepted) == (1, 4)
    assert (verdict.done, verdict.waiting, verdict.dead) == (2, 1, 1)
    assert verdict.broken_promises() == []


def test_what_is_lost_or_given_twice_or_not_at_all_is_said():
    seen = [visit("/0", 1), visit("/0", 2)]
    verdict = judge_crawls([TAKEN], {"1": view("failed", done=3)}, seen)
    assert (verdict.lost, verdict.not_fetched, verdict.repeated) == (1, 2, 1)
    assert verdict.not_completed == 1
    assert len(verdict.broken_promises()) == 4


def test_seeds_that_were_not_accepted_are_counted():
    refused = CrawlAnswer(Outcome.REFUSED, NO_CRAWL_ID, SEEDS[:3])
    abandoned = CrawlAnswer(Outcome.ABANDONED, NO_CRAWL_ID, SEEDS[3:])
    verdict = judge_crawls([refused, abandoned], {}, [])
    assert (verdict.not_accepted, verdict.accepted) == (3, 0)
    assert verdict.broken_promises() == ["3 seeds were not accepted"]


def test_answers_are_read_as_they_were_written(tmp_path):
    path = tmp_path / "answers"
    with path.open("w") as file:
        write_crawl_answer(file, TAKEN)
        write_crawl_answer(file, CrawlAnswer(Outcome.BROKEN, NO_CRAWL_ID, SEEDS[:1]))
    assert read_crawl_answers(path) == [
        TAKEN,
        CrawlAnswer(Outcome.BROKEN, NO_CRAWL_ID, SEEDS[:1]),
    ]


def test_an_answer_to_a_crawl_names_it():
    assert told_of_crawl(201, b'{"id": 3, "state": "starting"}') == (Outcome.QUEUED, "3")
    assert told_of_crawl(422, b'{"status": 422}') == (Outcome.REFUSED, "-")
    assert told_of_crawl(202, b"{}") == (Outcome.BROKEN, "-")
    assert told_of_crawl(500, b"")[0] is Outcome.BROKEN
