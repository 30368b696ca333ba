"""What a shard has counted, held against its rows. Each question is one statement, so that it sees
one moment, also beside an owner that writes."""

from collections.abc import Iterator
from typing import NamedTuple

from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.model import STATE_COUNTERS
from manyhands.shared.crawl.store.whole.new_shards import RECOUNTED
from manyhands.shared.crawl.store.whole.old_shard import ROWS_AT_ONCE, parts
from manyhands.shared.crawl.store.whole.tables import Tables
from manyhands.shared.urls import shard_of_domain

_NAME_OF_STATE = "CASE state {} END".format(
    " ".join(f"WHEN {state:d} THEN '{STATE_COUNTERS[state]}'" for state in UrlState)
)
_RECOUNTED = ", ".join(f"'{name}'" for name in sorted(RECOUNTED))
_COUNTERS = (
    "SELECT crawl, name, CAST(sum(counted) AS bigint), CAST(sum(found) AS bigint) FROM ("
    f"SELECT crawl, name, value AS counted, 0 AS found FROM @counters WHERE name IN ({_RECOUNTED})"
    f" UNION ALL SELECT crawl, {_NAME_OF_STATE}, 0, number FROM (SELECT crawl, state,"
    " count(*) AS number FROM @urls GROUP BY crawl, state) AS by_state"
    " UNION ALL SELECT crawl, 'admitted', 0, count(*) FROM @urls GROUP BY crawl"
    " UNION ALL SELECT crawl, 'outgoing', 0, count(*) FROM @outgoing GROUP BY crawl"
    ") AS all_of_them GROUP BY crawl, name ORDER BY crawl, name"
)
# What is wrong, and a statement that finds how often it is, and one example.
_FAULTS = (
    (
        "hosts whose count of waiting URLs is wrong, such as",
        "SELECT count(*), min(origins.origin) FROM @origins AS origins LEFT JOIN"
        f" (SELECT origin, count(*) AS number FROM @urls WHERE state = {UrlState.QUEUED:d}"
        " GROUP BY origin) AS waiting ON waiting.origin = origins.id"
        " WHERE origins.queued <> coalesce(waiting.number, 0)",
    ),
    (
        "domains whose count of waiting URLs is wrong, such as",
        "SELECT count(*), min(domains.name) FROM @domains AS domains LEFT JOIN"
        " (SELECT domain, sum(queued) AS number FROM @origins GROUP BY domain) AS waiting"
        " ON waiting.domain = domains.id WHERE domains.queued <> coalesce(waiting.number, 0)",
    ),
    (
        "hosts whose count of admitted URLs is wrong, such as",
        "SELECT count(*), min(origins.origin) FROM (SELECT origin FROM"
        " (SELECT crawl, origin, admitted FROM @hosts UNION ALL"
        " SELECT crawl, origin, -count(*) FROM @urls GROUP BY crawl, origin) AS both_sides"
        " GROUP BY crawl, origin HAVING sum(admitted) <> 0) AS wrong"
        " LEFT JOIN @origins AS origins ON origins.id = wrong.origin",
    ),
    (
        "URLs that are not among the seen, such as",
        "SELECT count(*), min(urls.url) FROM @urls AS urls LEFT JOIN @seen AS seen"
        " ON seen.crawl = urls.crawl AND seen.key = urls.key AND seen.url = urls.id"
        " WHERE seen.url IS NULL",
    ),
    (
        "seen URLs that are nowhere, such as number",
        "SELECT count(*), min(seen.url) FROM @seen AS seen LEFT JOIN @urls AS urls"
        " ON urls.id = seen.url WHERE urls.id IS NULL",
    ),
    (
        "URLs without their host or domain, such as",
        "SELECT count(*), min(urls.url) FROM @urls AS urls"
        " LEFT JOIN @origins AS origins ON origins.id = urls.origin"
        " LEFT JOIN @domains AS domains ON domains.id = origins.domain WHERE domains.id IS NULL",
    ),
)
_DOMAINS = "SELECT id, name FROM @domains WHERE id > %s ORDER BY id LIMIT %s"


class Count(NamedTuple):
    """A counter of a crawl in a shard, and what the rows say."""

    crawl: int
    name: str
    counted: int
    found: int


def counts(tables: Tables) -> list[Count]:
    return [Count(*row) for row in tables.ask(_COUNTERS)]


def faults(tables: Tables, shard: int, shards: int) -> Iterator[str]:
    """All others that are wrong in a shard."""
    for what, statement in _FAULTS:
        [(number, example)] = tables.ask(statement)
        if number:
            yield f"{number:,} {what} {example}"
    strangers = [
        name
        for rows in parts(tables, _DOMAINS, (0,), ROWS_AT_ONCE)
        for _, name in rows
        if shard_of_domain(name, shards) != shard
    ]
    if strangers:
        yield f"{len(strangers):,} domains of other shards, such as {strangers[0]}"
