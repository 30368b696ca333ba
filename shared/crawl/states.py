"""The states of a crawl and of its URLs. Pure."""

from enum import IntEnum, StrEnum


class CrawlState(StrEnum):
    """STARTING: its seeds are being taken, nothing is fetched yet. STOPPING: nothing new is
    fetched, what is in flight is awaited; what it will end as is stored beside it."""

    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"
    COMPLETED = "completed"
    LIMIT_REACHED = "limit_reached"
    CANCELLED = "cancelled"
    FAILED = "failed"

    @property
    def is_final(self) -> bool:
        return self in FINAL_CRAWL_STATES


FINAL_CRAWL_STATES = frozenset(
    {
        CrawlState.COMPLETED,
        CrawlState.LIMIT_REACHED,
        CrawlState.CANCELLED,
        CrawlState.FAILED,
    }
)


class UrlState(IntEnum):
    """Stored as numbers. A URL is owed something as long as it is in one of the first three."""

    QUEUED = 0
    # Taken from the backlog by its shard's owner: about to be fetched, or being fetched.
    CLAIMED = 1
    # Fetched; its parse job is in the broker.
    PARSING = 2
    DONE = 3
    # Fetched, and what came was a redirect; where it leads to is a URL of its own.
    REDIRECTED = 4
    FAILED = 5
    # By robots.txt.
    DISALLOWED = 6
    # By a rule of ours: a type of content that is not wanted, a block of its domain.
    SKIPPED = 7
    CANCELLED = 8

    @property
    def is_pending(self) -> bool:
        return self <= UrlState.PARSING
