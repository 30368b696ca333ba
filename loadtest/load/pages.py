"""What clients were told of pages that they wanted fetched, and what became of them: by the API,
and by the ledger of the web. Pure but for the files of the answers."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

from loadtest.load.ledger import Outcome
from loadtest.web.faults import open_at, pages_of, repeats_at
from loadtest.web.politeness import Visit

# Name the files with the pages to ask for, one on a line, and with the answers, to Locust's users.
PAGES_VARIABLE = "LOADTEST_PAGES"
ANSWERS_VARIABLE = "LOADTEST_PAGE_ANSWERS"
NO_JID = "-"
NOT_ACCEPTED = (Outcome.REFUSED, Outcome.UNKNOWN, Outcome.BROKEN)
# What `GET /jobs/{jid}` says of the ends of a job; a job that it does not know; all else is before.
DONE, DEAD, LOST = "done", "dead", ""


class PageAnswer(NamedTuple):
    """Of one job; each has a page of its own."""

    outcome: Outcome
    jid: str
    url: str


def write_page_answers(file: IO[str], answers: Iterable[PageAnswer]) -> None:
    for answer in answers:
        file.write(" ".join(answer) + "\n")


def read_page_answers(path: Path) -> list[PageAnswer]:
    rows = (line.split() for line in path.read_text().splitlines())
    return [PageAnswer(Outcome(outcome), jid, url) for outcome, jid, url in rows]


def jids_of(body: bytes, jobs: int) -> list[str]:
    """Of an answer to a single job, or to a list."""
    try:
        document: Any = json.loads(body)
        told = document.get("jobs", [document])
        return [str(each["jid"]) for each in told]
    except (ValueError, KeyError, TypeError, AttributeError):
        return [NO_JID] * jobs


@dataclass(frozen=True, slots=True)
class PageVerdict:
    """How many jobs. `done`, `waiting` and `dead` are what the API says of those accepted."""

    accepted: int
    done: int
    waiting: int
    dead: int
    # Accepted, and unknown to the API.
    lost: int
    # Done, and the web never gave the page.
    not_fetched: int
    # The web gave the page of a job that was refused or is dead.
    fetched_for_nobody: int
    # Refused, or not answered; without those whose client was ended before it had the answer.
    not_accepted: int
    # Given more than once; no kill explains it; more at a kill than were open then.
    repeated: int
    unexplained: int
    too_many_at_a_kill: int

    def broken_promises(self) -> list[str]:
        """In words."""
        found = (
            (self.lost, "jobs were accepted and are neither waiting, nor done, nor dead"),
            (self.not_fetched, "jobs are done and their pages were never fetched"),
            (self.fetched_for_nobody, "pages of jobs that are dead or were refused were fetched"),
            (self.not_accepted, "jobs were not accepted"),
            (self.unexplained, "pages were fetched again although nobody was killed"),
            (self.too_many_at_a_kill, "pages were fetched again that were not open at a kill"),
        )
        return [f"{count:,} {what}" for count, what in found if count]


def judge_pages(
    answers: Sequence[PageAnswer],
    states: Mapping[str, str],
    visits: Collection[Visit],
    kills_ns: Sequence[int],
) -> PageVerdict:
    """`states` are what the API says of each jid that was accepted."""
    accepted = [answer for answer in answers if answer.outcome is Outcome.QUEUED]
    not_accepted = [answer for answer in answers if answer.outcome in NOT_ACCEPTED]
    found = Counter(states.get(answer.jid, LOST) for answer in accepted)
    fetched = {visit.url for visit in pages_of(visits)}
    done = {answer.url for answer in accepted if states.get(answer.jid) == DONE}
    dead = {answer.url for answer in accepted if states.get(answer.jid) == DEAD}
    repeats = repeats_at(visits, kills_ns)
    return PageVerdict(
        accepted=len(accepted),
        done=found[DONE],
        waiting=len(accepted) - found[DONE] - found[DEAD] - found[LOST],
        dead=found[DEAD],
        lost=found[LOST],
        not_fetched=len(done - fetched),
        fetched_for_nobody=len(fetched & (dead | {answer.url for answer in not_accepted})),
        not_accepted=len(not_accepted),
        repeated=repeats.total(),
        unexplained=repeats[None],
        too_many_at_a_kill=sum(
            max(0, repeats[at_ns] - len(open_at(visits, at_ns))) for at_ns in kills_ns
        ),
    )
