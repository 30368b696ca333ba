"""What waits in the control file for the owners of shards, given to the shards of a new count.

Inside the transaction that makes the new count the one that counts.
"""

from collections import defaultdict

import orjson

from manyhands.shared.crawl.store.sqlite.database import Database
from manyhands.shared.urls import shard_of_domain, shard_of_url


def seeds(database: Database, shards: int) -> None:
    """One batch at a time; the new ones come behind the last of the old."""
    last = database.value("SELECT max(id) FROM seeds") or 0
    while row := database.row(
        "SELECT id, crawl, urls FROM seeds WHERE id <= ? ORDER BY id LIMIT 1", (last,)
    ):
        number, crawl, urls = row
        by_shard: defaultdict[int, list[str]] = defaultdict(list)
        for url in orjson.loads(urls):
            by_shard[shard_of_url(url, shards)].append(url)
        database.run("DELETE FROM seeds WHERE id = ?", (number,))
        for shard, of_shard in by_shard.items():
            database.run(
                "INSERT INTO seeds (shard, crawl, urls) VALUES (?, ?, ?)",
                (shard, crawl, orjson.dumps(of_shard)),
            )


def purges(database: Database, shards: int) -> None:
    for number, domain in database.rows("SELECT id, domain FROM purges"):
        database.run(
            "UPDATE purges SET shard = ? WHERE id = ?", (shard_of_domain(domain, shards), number)
        )
