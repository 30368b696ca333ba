"""What the control stores of all kinds have in common. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from manyhands.shared.crawl.spec import CrawlSpec
from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.crawl.store.model import Crawl

SEEDS_AT_ONCE = 1000
# Of a crawl; the oldest are forgotten.
MOST_NOTES = 1000
ALL_CRAWLS = 0


def seed_rows(
    crawl: int, by_shard: Mapping[int, Sequence[str]]
) -> Iterator[tuple[int, int, bytes]]:
    """Batches for the table of seeds: shard, crawl and a JSON list."""
    for shard, urls in by_shard.items():
        for start in range(0, len(urls), SEEDS_AT_ONCE):
            yield shard, crawl, orjson.dumps(list(urls[start : start + SEEDS_AT_ONCE]))


def crawl_of_row(row: Sequence[Any]) -> Crawl:
    number, spec, state, ends_as, reason, *times, has_all_seeds, lines = row
    created_at, started_at, ended_at = times
    return Crawl(
        id=number,
        spec=CrawlSpec.model_validate_json(spec),
        state=CrawlState(state),
        ends_as=None if ends_as is None else CrawlState(ends_as),
        reason=reason,
        created_at=created_at,
        started_at=started_at,
        ended_at=ended_at,
        has_all_seeds=bool(has_all_seeds),
        seed_file_lines=lines,
    )
