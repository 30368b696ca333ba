"""What the readers of all kinds of stores have in common. Pure."""

from collections.abc import Iterable, Sequence
from typing import Any

from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.model import COUNTERS, ErrorGroup, JobRow, UrlRow


def counters_of_rows(rows: Iterable[tuple[Any, ...]]) -> dict[str, int]:
    """All counters, also those that have no row."""
    stored: dict[str, int] = dict(rows)
    return {name: stored.get(name, 0) for name in COUNTERS}


def url_of_row(row: Sequence[Any]) -> UrlRow:
    number, url, state, *rest = row
    return UrlRow(number, url, UrlState(state), *rest)


def error_of_row(row: Sequence[Any]) -> ErrorGroup:
    reason, count, sample, first_at, last_at = row
    url, _, detail = sample.partition("\n")
    return ErrorGroup(reason, count, url, first_at, last_at, detail)


def job_of_row(row: Sequence[Any]) -> JobRow:
    place, url, state, *rest = row
    return JobRow(place, url, UrlState(state), *rest)
