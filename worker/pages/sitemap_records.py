"""What the sinks get of a sitemap: its URLs and when each was changed last. Pure."""

from manyhands.shared.crawl.messages import FetchedPage
from manyhands.shared.grouping import grouped
from manyhands.worker.pages.listings import Listing
from manyhands.worker.records import PlainRecord

# Of one record: servers take a megabyte or less.
MAX_ENTRIES = 1000
MAX_LENGTH = 200_000


def sitemap_records(page: FetchedPage, listing: Listing) -> tuple[PlainRecord, ...]:
    """As many as are needed. Their ids follow from the visit's, so a repeat makes the same."""
    parts = grouped(
        listing.found.items(),
        lambda entry: sum(map(len, entry)),
        most_size=MAX_LENGTH,
        most_items=MAX_ENTRIES,
    )
    return tuple(_record(page, number, part) for number, part in enumerate(parts))


def _record(page: FetchedPage, number: int, part: list[tuple[str, str]]) -> PlainRecord:
    record_id = f"{page.visit}.{number}"
    return PlainRecord(
        record_id,
        {
            "id": record_id,
            "sitemap": page.url,
            "crawl": page.crawl,
            "fetched_at": page.fetched_at,
            "entries": [{"url": url, "lastmod": lastmod or None} for url, lastmod in part],
        },
    )
