"""Users of a load test who start crawls, for Locust: each of some seeds, which are all that it
fetches.

`python -m loadtest mixed` starts it. LOADTEST_SEEDS names a file with the seeds, of which each is
asked for once; every answer is written down in the one that LOADTEST_CRAWL_ANSWERS names.
"""

import json
import os
from itertools import islice
from pathlib import Path
from typing import Any

import gevent  # type: ignore[import-untyped]
from locust import events, task
from locust.exception import StopUser

from loadtest.load.answers import told_of_crawl
from loadtest.load.crawls import (
    ANSWERS_VARIABLE,
    NO_CRAWL_ID,
    SEEDS_VARIABLE,
    CrawlAnswer,
    write_crawl_answer,
)
from loadtest.load.ledger import Outcome
from loadtest.locustfiles.jobs import JobUser

SEEDS = 20
JSON = {"Content-Type": "application/json"}
CONTACT = "loadtest@example.org"

_seeds = iter(Path(os.environ[SEEDS_VARIABLE]).read_text().splitlines())
_answers = Path(os.environ[ANSWERS_VARIABLE]).open("a")  # noqa: SIM115 - open until the end


@events.test_stop.add_listener  # type: ignore[untyped-decorator]
def _flush(**_: Any) -> None:
    _answers.flush()


class CrawlUser(JobUser):
    """One crawl every two seconds."""

    weight = 1
    per_s = 0.5

    @task
    def post(self) -> None:
        seeds = tuple(islice(_seeds, SEEDS))
        if len(seeds) < SEEDS:
            raise StopUser
        outcome, crawl = Outcome.BROKEN, NO_CRAWL_ID
        body = {
            "contact": CONTACT,
            "seeds": seeds,
            "scope": {"within": "seeds", "max_depth": 0},
            "politeness": {"delay_s": 0},
            "discovery": {"sitemaps": "none"},
        }
        try:
            response = self.client.post("/crawls", json.dumps(body), headers=JSON)
            outcome, crawl = told_of_crawl(response.status_code, response.content or b"")
        except gevent.GreenletExit:
            # Locust ends a user whose pause is just over, although it has begun a request.
            outcome = Outcome.ABANDONED
            raise
        finally:
            write_crawl_answer(_answers, CrawlAnswer(outcome, crawl, seeds))
