"""The users of a load test, for Locust: single POSTs, lists, and NDJSON streams.

    locust -f loadtest/locustfiles/jobs.py --host http://127.0.0.1:3000 [SingleUser …]

`python -m loadtest run` starts it with everything that it needs beside it. LOADTEST_API_KEY is the
key of a service that wants one. With LOADTEST_LEDGER every answer is written down, and the jobs
that a worker with loadtest.load.handlers has done are among the figures.
"""

import os
import random
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import gevent  # type: ignore[import-untyped]
from locust import FastHttpUser, events, task
from locust.env import Environment
from locust.stats import CSV_STATS_INTERVAL_SEC, RequestStats

from loadtest.load.answers import told_of_lines, told_of_list, told_of_single
from loadtest.load.ledger import (
    ANSWERS_SUFFIX,
    DIRECTORY_VARIABLE,
    Answer,
    DoneTail,
    Outcome,
    answers_of,
    now_us,
    write_answers,
)

LIST_JOBS = 100
STREAM_LINES = 1000
# The shortest that a server reserves for: what a restart strands is back soon.
RESERVE_FOR_S = 60
# A broker that is away for seconds holds requests up; none of them may be given up unanswered.
ANSWER_TIMEOUT_S = 60.0
LOOK_EVERY_S = 0.2
# When all users have stopped, jobs may still be under way; so long without news ends the wait.
STANDSTILL_S = 5.0
JOBS = "JOBS"


class Figures:
    """What this process tells Locust and the ledger. State: the number of the next job, and which
    jobs were accepted and which are done."""

    def __init__(self, directory: Path | None) -> None:
        self._next = 0
        self._accepted: set[int] = set()
        self._done: set[int] = set()
        self._tail = DoneTail(directory) if directory else None
        path = directory / f"locust-{os.getpid()}{ANSWERS_SUFFIX}" if directory else os.devnull
        self._file = Path(path).open("a")  # noqa: SIM115 - open until the process ends

    def number(self, jobs: int) -> int:
        """Numbers for so many jobs: the first of them."""
        first, self._next = self._next, self._next + jobs
        return first

    def note(self, answers: Iterable[Answer], stats: RequestStats) -> None:
        noted = list(answers)
        write_answers(self._file, noted)
        accepted = stats.get("accepted", JOBS)
        for answer in noted:
            if answer.outcome is Outcome.QUEUED:
                self._accepted.update(answer.numbers)
                for _ in answer.numbers:
                    accepted.log(_ms(answer.posted_us, answer.answered_us), 0)

    def follow(self, stats: RequestStats) -> None:
        """Look for jobs that were done, for ever."""
        while True:
            gevent.sleep(LOOK_EVERY_S)
            self._look(stats)

    def finish(self, stats: RequestStats) -> None:
        """When nothing is posted any more: wait for the jobs that are still under way."""
        moved_at = time.monotonic()
        while self._tail and not self._accepted <= self._done:
            if self._look(stats):
                moved_at = time.monotonic()
            elif time.monotonic() - moved_at > STANDSTILL_S:
                break
            gevent.sleep(LOOK_EVERY_S)
        self._file.flush()
        # Locust writes its tables once a second, and not once more at its end.
        gevent.sleep(CSV_STATS_INTERVAL_SEC + LOOK_EVERY_S)

    def _look(self, stats: RequestStats) -> int:
        found = self._tail.read() if self._tail else []
        completed = stats.get("completed", JOBS)
        for done in found:
            completed.log(_ms(done.posted_us, done.done_us), 0)
        self._done.update(done.number for done in found)
        return len(found)


def _ms(start_us: int, end_us: int) -> int:
    return (end_us - start_us) // 1000


directory = os.environ.get(DIRECTORY_VARIABLE)
figures = Figures(Path(directory) if directory else None)


@events.test_start.add_listener  # type: ignore[untyped-decorator]
def _follow(environment: Environment, **_: Any) -> None:
    if directory:
        gevent.spawn(figures.follow, environment.stats)


@events.test_stop.add_listener  # type: ignore[untyped-decorator]
def _finish(environment: Environment, **_: Any) -> None:
    figures.finish(environment.stats)


class JobUser(FastHttpUser):
    """Posts jobs, so many times a second, and notes what it was told of each."""

    abstract = True
    per_s: float
    network_timeout = ANSWER_TIMEOUT_S
    connection_timeout = ANSWER_TIMEOUT_S
    default_headers = (
        {"X-API-Key": os.environ["LOADTEST_API_KEY"]} if "LOADTEST_API_KEY" in os.environ else None
    )

    def on_start(self) -> None:
        gevent.sleep(random.uniform(0, 1 / self.per_s))
        self._due = time.monotonic()

    def wait_time(self) -> float:
        """At random around the pace: users that begin together must not go on in step. Who is
        late goes at once, and does not catch up."""
        now = time.monotonic()
        self._due = max(now, self._due + random.uniform(0.5, 1.5) / self.per_s)
        return self._due - now

    def post_jobs(
        self,
        kind: str,
        path: str,
        jobs: int,
        make_body: Callable[[int, int], str],
        told: Callable[[int, bytes], list[Outcome]],
        content_type: str,
    ) -> None:
        first, posted_us = figures.number(jobs), now_us()
        outcomes = [Outcome.BROKEN] * jobs
        try:
            response = self.client.post(
                path,
                make_body(first, posted_us),
                name=f"{path.partition('?')[0]} {kind}",
                headers={"Content-Type": content_type},
            )
            outcomes = told(response.status_code, response.content or b"")
        except gevent.GreenletExit:
            # Locust ends a user whose pause is just over, although it has begun a request.
            outcomes = [Outcome.ABANDONED] * jobs
            raise
        finally:
            answers = answers_of(kind, first, outcomes, posted_us, now_us())
            figures.note(answers, self.environment.stats)


class SingleUser(JobUser):
    """Ten POSTs a second, one job each."""

    weight = 6
    per_s = 10

    @task
    def post(self) -> None:
        self.post_jobs(
            "single",
            f"/jobs/add?reserve_for={RESERVE_FOR_S}",
            1,
            lambda number, posted_us: f'{{"a": {number}, "b": {posted_us}}}',
            told_of_single,
            "application/x-www-form-urlencoded",  # as curl -d
        )


class ListUser(JobUser):
    """One list a second."""

    weight = 3
    per_s = 1

    @task
    def post(self) -> None:
        self.post_jobs(
            "list",
            "/jobs",
            LIST_JOBS,
            lambda first, posted_us: f"[{','.join(_items(first, LIST_JOBS, posted_us))}]",
            lambda status, body: told_of_list(LIST_JOBS, status, body),
            "application/json",
        )


class StreamUser(JobUser):
    """One stream every two seconds."""

    weight = 1
    per_s = 0.5

    @task
    def post(self) -> None:
        self.post_jobs(
            "stream",
            "/jobs",
            STREAM_LINES,
            lambda first, posted_us: "\n".join(_items(first, STREAM_LINES, posted_us)),
            lambda status, body: told_of_lines(STREAM_LINES, status, body),
            "application/x-ndjson",
        )


def _items(first: int, count: int, posted_us: int) -> list[str]:
    return [
        f'{{"jobtype":"add","args":{{"a":{number},"b":{posted_us}}},"reserve_for":{RESERVE_FOR_S}}}'
        for number in range(first, first + count)
    ]
