"""Crawls and counters as the state store would tell them."""

from dataclasses import replace
from typing import Any

from manyhands.api.crawls.views import Told
from manyhands.shared.crawl.spec import CrawlSpec
from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.crawl.store.model import COUNTERS, Crawl

CREATED_AT = 1_000_000.0
STARTED_AT = CREATED_AT + 10


def a_crawl(state: CrawlState = CrawlState.RUNNING, **more: Any) -> Crawl:
    """One that has been started and has all its seeds."""
    spec = CrawlSpec.model_validate({"contact": "me@example.org"} | more.pop("spec", {}))
    crawl = Crawl(
        id=7,
        spec=spec,
        state=state,
        ends_as=None,
        reason="",
        created_at=CREATED_AT,
        started_at=None if state is CrawlState.STARTING else STARTED_AT,
        ended_at=STARTED_AT + 100 if state.is_final else None,
        has_all_seeds=True,
        seed_file_lines=0,
    )
    return replace(crawl, **more)


def counters(**values: int) -> dict[str, int]:
    return dict.fromkeys(COUNTERS, 0) | values


def told(crawl: Crawl, **more: Any) -> Told:
    """With a worker that owns all shards."""
    known = Told(
        crawl=crawl,
        members=1,
        figures=None,
        owned_shards=4,
        shards=4,
        seeds_waiting=0,
        rules=[],
        notes=[],
        patience_s=300.0,
    )
    return replace(known, **more)
