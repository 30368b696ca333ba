"""What the books of a load test come to: promises kept or broken, rates and times. Pure."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from loadtest.lib.stats import percentile
from loadtest.load.ledger import Answer, Books, Done, Outcome

ALL = "all"


@dataclass(frozen=True, slots=True)
class Times:
    """Percentiles, in ms."""

    p50_ms: float
    p95_ms: float
    p99_ms: float

    @classmethod
    def of(cls, times_us: Iterable[int]) -> "Times":
        ordered = sorted(times_us)
        return cls(*(percentile(ordered, percent) / 1000 for percent in (50, 95, 99)))


@dataclass(frozen=True, slots=True)
class Row:
    """The jobs of one kind of request. A rate counts from the first POST to the last answer, or
    to the last job done."""

    kind: str
    accepted: int
    completed: int
    accepted_per_s: float
    completed_per_s: float
    to_answer: Times
    to_done: Times


@dataclass(frozen=True, slots=True)
class Verdict:
    """How many jobs each promise was broken for, and the figures by kind of request, all last."""

    # Accepted, and never done.
    lost: int
    # Refused, and done all the same.
    ran_although_refused: int
    # Not answered, or with an answer that says nothing of the job.
    broken: int
    refused: int
    unknown: int
    # Done more than once: at least once is what is promised.
    repeated: int
    rows: list[Row]

    @property
    def total(self) -> Row:
        return self.rows[-1]

    def broken_promises(self) -> list[str]:
        """In words; none is what must come out whatever happened to the broker."""
        found = (
            (self.lost, "jobs were accepted and never done"),
            (self.ran_although_refused, "jobs were refused and done all the same"),
            (self.broken, "jobs got no answer, or one that says nothing of them"),
        )
        return [f"{count:,} {what}" for count, what in found if count]


@dataclass(frozen=True, slots=True)
class Targets:
    """What a load test must reach; it is missed, if it is, by words."""

    min_jobs_per_s: float
    max_p95_ms: float

    def missed(self, total: Row) -> list[str]:
        missed = []
        if total.completed_per_s < self.min_jobs_per_s:
            missed.append(
                f"{total.completed_per_s:,.0f} jobs/s were completed, the target is "
                f"{self.min_jobs_per_s:,.0f}"
            )
        if total.to_done.p95_ms > self.max_p95_ms:
            missed.append(
                f"p95 from POST to done was {total.to_done.p95_ms:,.0f} ms, the target is "
                f"{self.max_p95_ms:,.0f}"
            )
        return missed


def unfinished(books: Books) -> int:
    """How many accepted jobs are not done yet."""
    return len(_numbers(books.answers, Outcome.QUEUED) - {done.number for done in books.done})


def judge(books: Books) -> Verdict:
    runs = Counter(done.number for done in books.done)
    first_runs = _first_runs(books.done)
    return Verdict(
        lost=unfinished(books),
        ran_although_refused=len(_numbers(books.answers, Outcome.REFUSED) & runs.keys()),
        broken=_count(books.answers, Outcome.BROKEN),
        refused=_count(books.answers, Outcome.REFUSED),
        unknown=_count(books.answers, Outcome.UNKNOWN),
        repeated=sum(count > 1 for count in runs.values()),
        rows=_rows(books.answers, first_runs),
    )


def _rows(answers: list[Answer], first_runs: dict[int, Done]) -> list[Row]:
    kinds = list(dict.fromkeys(answer.kind for answer in answers))
    rows = [_row(kind, [one for one in answers if one.kind == kind], first_runs) for kind in kinds]
    return [*rows, _row(ALL, answers, first_runs)]


def _row(kind: str, answers: list[Answer], first_runs: dict[int, Done]) -> Row:
    accepted = [answer for answer in answers if answer.outcome is Outcome.QUEUED]
    done = [first_runs[n] for answer in accepted for n in answer.numbers if n in first_runs]
    jobs = sum(answer.jobs for answer in accepted)
    start_us = min((answer.posted_us for answer in answers), default=0)
    return Row(
        kind=kind,
        accepted=jobs,
        completed=len(done),
        accepted_per_s=_per_s(jobs, start_us, [answer.answered_us for answer in accepted]),
        completed_per_s=_per_s(len(done), start_us, [one.done_us for one in done]),
        to_answer=Times.of(one.answered_us - one.posted_us for one in accepted),
        to_done=Times.of(one.done_us - one.posted_us for one in done),
    )


def _per_s(count: int, start_us: int, ends_us: list[int]) -> float:
    return count / (max(ends_us) - start_us) * 1e6 if ends_us else 0.0


def _first_runs(done: list[Done]) -> dict[int, Done]:
    found: dict[int, Done] = {}
    for one in done:
        if one.number not in found or one.done_us < found[one.number].done_us:
            found[one.number] = one
    return found


def _numbers(answers: list[Answer], outcome: Outcome) -> set[int]:
    return {n for answer in answers if answer.outcome is outcome for n in answer.numbers}


def _count(answers: list[Answer], outcome: Outcome) -> int:
    return sum(answer.jobs for answer in answers if answer.outcome is outcome)
