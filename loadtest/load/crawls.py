"""What clients were told of crawls that they started, and what became of their seeds: by the API,
and by the ledger of the web. Pure but for the file of the answers."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

from loadtest.load.ledger import Outcome
from loadtest.load.pages import NOT_ACCEPTED
from loadtest.web.faults import pages_of
from loadtest.web.politeness import Visit

# Name the files with the seeds, one on a line, and with the answers, to Locust's users.
SEEDS_VARIABLE = "LOADTEST_SEEDS"
ANSWERS_VARIABLE = "LOADTEST_CRAWL_ANSWERS"
NO_CRAWL_ID = "-"
ENDED = ("completed", "limit_reached", "cancelled", "failed")
DONE = ("done", "redirected")
WAITING = ("queued", "claimed", "parsing")


class CrawlAnswer(NamedTuple):
    """Each crawl has seeds of its own, and fetches nothing else."""

    outcome: Outcome
    crawl: str
    seeds: tuple[str, ...]


def write_crawl_answer(file: IO[str], answer: CrawlAnswer) -> None:
    file.write(" ".join((answer.outcome, answer.crawl, *answer.seeds)) + "\n")


def read_crawl_answers(path: Path) -> list[CrawlAnswer]:
    rows = (line.split() for line in path.read_text().splitlines())
    return [CrawlAnswer(Outcome(outcome), crawl, tuple(seeds)) for outcome, crawl, *seeds in rows]


@dataclass(frozen=True, slots=True)
class CrawlVerdict:
    """Of seeds; `done`, `waiting` and `dead` are what the API says of those accepted."""

    crawls: int
    accepted: int
    done: int
    waiting: int
    dead: int
    # Accepted, and in no state.
    lost: int
    # Done, and the web never gave the page, or gave it more than once.
    not_fetched: int
    repeated: int
    not_accepted: int
    # Crawls that ended, but not as completed.
    not_completed: int

    def broken_promises(self) -> list[str]:
        """In words."""
        found = (
            (self.lost, "seeds were accepted and are neither waiting, nor done, nor dead"),
            (self.not_fetched, "seeds are done and were never fetched"),
            (self.repeated, "seeds were fetched again although nobody was killed"),
            (self.not_accepted, "seeds were not accepted"),
            (self.not_completed, "crawls have ended, and not as completed"),
        )
        return [f"{count:,} {what}" for count, what in found if count]


def judge_crawls(
    answers: Sequence[CrawlAnswer], views: Mapping[str, Mapping[str, Any]], visits: Iterable[Visit]
) -> CrawlVerdict:
    """`views` are what `GET /crawls/{id}` says of each crawl that was accepted."""
    accepted = [answer for answer in answers if answer.outcome is Outcome.QUEUED]
    urls: Counter[str] = Counter()
    for answer in accepted:
        urls.update(views[answer.crawl]["urls"])
    seeds = {seed for answer in accepted for seed in answer.seeds}
    fetched = Counter(visit.url for visit in pages_of(list(visits)) if visit.url in seeds)
    done = _total(urls, DONE)
    return CrawlVerdict(
        crawls=len(accepted),
        accepted=len(seeds),
        done=done,
        waiting=_total(urls, WAITING),
        dead=urls.total() - done - _total(urls, WAITING),
        lost=len(seeds) - urls.total(),
        not_fetched=max(0, done - len(fetched)),
        repeated=fetched.total() - len(fetched),
        not_accepted=sum(len(answer.seeds) for answer in answers if answer.outcome in NOT_ACCEPTED),
        not_completed=sum(
            views[answer.crawl]["state"] in ENDED and views[answer.crawl]["state"] != "completed"
            for answer in accepted
        ),
    )


def _total(urls: Mapping[str, int], states: Collection[str]) -> int:
    return sum(urls.get(state, 0) for state in states)
